"""logs: print the output of a job, or of the local container."""

import sys

from gpu_profile import files, process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import job_of, run_at_home
from gpu_profile.cli.options.jobs import LogsOptions
from gpu_profile.cli.terminal import run_or_raise
from gpu_profile.engine import container
from gpu_profile.errors import ToolError
from gpu_profile.runs.record import OUTPUT_FILE


def logs(options: LogsOptions) -> None:
    """Print a job's output, from its run directory once the engine has removed the job."""
    chosen = load_settings(options)
    home = run_at_home(options.job, chosen)
    if home:
        sys.stdout.write(files.read_text(home[0] / OUTPUT_FILE))
        return
    job = job_of(options.job, chosen)
    if job:
        run_or_raise(job[0].logs(job[1], follow=options.follow), ToolError)
    else:
        process.drive(container.require_container(chosen.container, running=False))
        run_or_raise(container.follow_logs(chosen.container, follow=options.follow), ToolError)
