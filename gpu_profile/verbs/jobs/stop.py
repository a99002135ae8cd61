"""stop: end a job, or the local container."""

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.jobs import StopOptions
from gpu_profile.cli.terminal import tell
from gpu_profile.engine import container
from gpu_profile.launcher import Launcher
from gpu_profile.runs.outcome import describe_end
from gpu_profile.verbs.jobs.job_or_container import answer_for_job


def stop(options: StopOptions) -> None:
    """Stop the job of --job, or the local container."""

    def stop_job(launcher: Launcher, job_id: str) -> str:
        process.drive(launcher.stop(job_id))
        tell(f"{options.job} stopped; `invoke fetch --job {options.job}` brings its reports")
        return ""

    text = answer_for_job(
        options.job,
        load_settings(options),
        ended=describe_end,
        job=stop_job,
        container=lambda name: process.drive(container.stop_container(name)),
    )
    if text:
        print(text)
