"""Find the job, the launcher and the run that --job names."""

from pathlib import Path

from gpu_profile.errors import SettingsError
from gpu_profile.job import Handle, LauncherName
from gpu_profile.launcher import Launcher
from gpu_profile.launchers.table import LAUNCHERS
from gpu_profile.runs import record as rundir
from gpu_profile.runs.record import RunRecord
from gpu_profile.settings.settings import Settings


def launcher_of(name: LauncherName, chosen: Settings) -> Launcher:
    """Return the launcher with these settings. Only its own module is imported."""
    launcher: Launcher = LAUNCHERS[name].load_class().from_settings(chosen)
    return launcher


def run_at_home(job_text: str, chosen: Settings) -> tuple[Path, RunRecord] | None:
    """Return the directory and record of a --job whose engine has removed it, otherwise None."""
    if not job_text:
        return None
    try:
        directory = rundir.find_run(chosen.report_dir, job_text)
    except SettingsError:
        return None
    run = rundir.load_run(directory)
    return (directory, run) if run.cleaned else None


def job_of(job_text: str, chosen: Settings) -> tuple[Launcher, str] | None:
    """Return the launcher and id of --job, which is a handle or a run id; None without the flag."""
    if not job_text:
        return None
    if "://" not in job_text:
        job_text = rundir.load_run(rundir.find_run(chosen.report_dir, job_text)).handle
    handle = Handle.parse(job_text)
    return launcher_of(handle.launcher, chosen), handle.id
