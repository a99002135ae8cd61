"""logs: print the output of a job, or of the local container."""

import sys

from gpu_profile import files, process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.jobs import LogsOptions
from gpu_profile.cli.terminal import run_or_raise
from gpu_profile.command import Command
from gpu_profile.engine import container
from gpu_profile.errors import ToolError
from gpu_profile.runs.record import OUTPUT_FILE
from gpu_profile.verbs.jobs.job_or_container import answer_for_job


def logs(options: LogsOptions) -> None:
    """Print a job's output, from its run directory once the engine has removed the job."""
    follow = options.follow
    text = answer_for_job(
        options.job,
        load_settings(options),
        ended=lambda directory, _: files.read_text(directory / OUTPUT_FILE),
        job=lambda launcher, job_id: _attach(launcher.logs(job_id, follow=follow)),
        container=lambda name: _attach_container(name, follow=follow),
    )
    sys.stdout.write(text)


def _attach(command: Command) -> str:
    """Run the command, which prints for itself; return nothing more to print."""
    run_or_raise(command, ToolError)
    return ""


def _attach_container(name: str, *, follow: bool) -> str:
    process.drive(container.require_container(name, running=False))
    return _attach(container.follow_logs(name, follow=follow))
