"""The job that --job means, and its launcher."""

from pathlib import Path

from gpu_profile.cli.table import Options
from gpu_profile.errors import SettingsError
from gpu_profile.job import Handle, LauncherName
from gpu_profile.launcher import Launcher
from gpu_profile.runs import record as rundir
from gpu_profile.runs.record import Run
from gpu_profile.settings.settings import Settings


def launcher_of(name: LauncherName, chosen: Settings) -> Launcher:
    from gpu_profile.launchers.table import LAUNCHERS  # only verbs that start jobs pay for all

    return LAUNCHERS[name](chosen)


def run_at_home(options: Options, chosen: Settings) -> tuple[Path, Run] | None:
    """The directory and record of the run that --job means, where its engine has nothing left."""
    wanted = str(options["job"])
    if not wanted:
        return None
    try:
        directory = rundir.find(chosen.report_dir, wanted)
    except SettingsError:
        return None
    run = rundir.load(directory)
    return (directory, run) if run.cleaned else None


def job_of(options: Options, chosen: Settings) -> tuple[Launcher, str] | None:
    """The launcher and id that --job means, by handle or run id; None without the flag."""
    wanted = str(options["job"])
    if not wanted:
        return None
    if "://" not in wanted:
        wanted = rundir.load(rundir.find(chosen.report_dir, wanted)).handle
    handle = Handle.parse(wanted)
    return launcher_of(handle.launcher, chosen), handle.id
