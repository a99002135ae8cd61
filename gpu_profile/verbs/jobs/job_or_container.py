"""What logs, status and stop do alike: find what --job names, or take the local container."""

from collections.abc import Callable
from pathlib import Path

from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import job_of, run_at_home
from gpu_profile.cli.options.jobs import LogsOptions, StatusOptions, StopOptions
from gpu_profile.launcher import Launcher
from gpu_profile.runs.record import RunRecord


def answer_for_job(
    options: LogsOptions | StatusOptions | StopOptions,
    *,
    ended: Callable[[Path, RunRecord], str],
    job: Callable[[Launcher, str], str],
    container: Callable[[str], str],
) -> str:
    """Return the text of the function that fits --job. The others are not called.

    `ended` gets the directory and record of a run whose engine has removed it, `job` the launcher
    and the job's id, `container` the name of the local container, where --job is not named.
    """
    settings = load_settings(options)
    home = run_at_home(options.job, settings)
    if home:
        return ended(*home)
    elsewhere = job_of(options.job, settings)
    return job(*elsewhere) if elsewhere else container(settings.container)
