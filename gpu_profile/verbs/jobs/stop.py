"""stop: end a job, or the local container."""

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import job_of, run_at_home
from gpu_profile.cli.options.jobs import StopOptions
from gpu_profile.cli.terminal import tell
from gpu_profile.engine import container
from gpu_profile.verbs.jobs.ended_run import describe_end


def stop(options: StopOptions) -> None:
    """Stop the job of --job, or the local container."""
    chosen = load_settings(options)
    home = run_at_home(options.job, chosen)
    if home:
        print(describe_end(*home))
        return
    job = job_of(options.job, chosen)
    if job:
        process.drive(job[0].stop(job[1]))
        tell(f"{options.job} stopped; `invoke fetch --job {options.job}` brings its reports")
    else:
        print(process.drive(container.stop_container(chosen.container)))
