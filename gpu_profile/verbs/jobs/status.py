"""status: print the state of a job, or of the local container."""

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.jobs import StatusOptions
from gpu_profile.command import Steps
from gpu_profile.engine import container
from gpu_profile.launcher import JobStatus
from gpu_profile.printable import name_program
from gpu_profile.runs.follower import tell_left
from gpu_profile.runs.outcome import describe_end
from gpu_profile.verbs.jobs.job_or_container import answer_for_job


def status(options: StatusOptions) -> None:
    """Print a job's state, from its record once the engine has removed the job."""
    settings = load_settings(options)
    tell_left(settings.report_dir)
    text = answer_for_job(
        options.job,
        settings,
        ended=describe_end,
        job=lambda launcher, job_id: _format_status(process.drive(launcher.status(job_id))),
        container=lambda name: process.drive(_container_status(name)),
    )
    print(text)


def _format_status(status: JobStatus) -> str:
    code = "" if status.exit_code is None else f", exit code {status.exit_code}"
    return f"{status.state.value}{code}{f': {status.reason}' if status.reason else ''}"


def _container_status(name: str) -> Steps[str]:
    state = container.parse_state((yield container.inspect_container(name)))
    if state:
        return f"{name}: {state['Status']}"
    hint = name_program("`invoke run` starts it; --job NAME asks for a job")
    return f"container {name}: not there. {hint}"
