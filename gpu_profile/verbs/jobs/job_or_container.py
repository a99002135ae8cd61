"""What logs, status and stop do alike: find what --job names, or take the local container."""

from collections.abc import Callable
from pathlib import Path

from gpu_profile.cli.jobs import job_of, run_at_home
from gpu_profile.launcher import Launcher
from gpu_profile.runs.record import RunRecord
from gpu_profile.settings.settings import Settings


def answer_for_job(
    job_text: str,
    settings: Settings,
    *,
    ended: Callable[[Path, RunRecord], str],
    job: Callable[[Launcher, str], str],
    container: Callable[[str], str],
) -> str:
    """Return the text of the function that fits `job_text`, the value of --job; call no other.

    `ended` gets the directory and record of a run whose engine has removed it, `job` the launcher
    and the job's id, `container` the name of the local container, where --job is not named.
    """
    home = run_at_home(job_text, settings)
    if home:
        return ended(*home)
    elsewhere = job_of(job_text, settings)
    return job(*elsewhere) if elsewhere else container(settings.container)
