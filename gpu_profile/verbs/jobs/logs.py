"""logs: print the output of a job, or of the local container."""

import functools
import sys

from gpu_profile import files, process, redact
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.jobs import LogsOptions
from gpu_profile.cli.terminal import copy_or_raise, run_or_raise
from gpu_profile.engine import container
from gpu_profile.errors import ToolError
from gpu_profile.launcher import Launcher
from gpu_profile.progress import Progress
from gpu_profile.runs import output_log
from gpu_profile.runs.record import OUTPUT_FILE
from gpu_profile.verbs.jobs.job_or_container import answer_for_job


def logs(options: LogsOptions) -> None:
    """Print a job's output, from its run directory once the engine has removed the job."""
    follow = options.follow
    text = answer_for_job(
        options.job,
        load_settings(options),
        ended=lambda directory, _: files.read_text(directory / OUTPUT_FILE),
        job=lambda launcher, job_id: _print_redacted(launcher, job_id, options),
        container=lambda name: _attach_container(name, follow=follow),
    )
    sys.stdout.write(text)


def _print_redacted(launcher: Launcher, job_id: str, options: LogsOptions) -> str:
    """Print the output without credentials, as output.log has it; return nothing more to print."""
    own = redact.secret_values(options.environ)
    secrets = own + output_log.find_secrets(launcher, job_id, Progress())
    copy = functools.partial(output_log.copy_redacted, secrets=secrets)
    copy_or_raise(launcher.logs(job_id, follow=options.follow), copy, ToolError)
    return ""


def _attach_container(name: str, *, follow: bool) -> str:
    process.drive(container.require_container(name, running=False))
    run_or_raise(container.follow_logs(name, follow=follow), ToolError)
    return ""
