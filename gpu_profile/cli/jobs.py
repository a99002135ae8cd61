"""Find the job, the launcher and the run that --job names."""

from collections.abc import Callable
from pathlib import Path

from gpu_profile.declared.launchers import LAUNCHERS
from gpu_profile.errors import SettingsError
from gpu_profile.job import Handle
from gpu_profile.launcher import Launcher
from gpu_profile.runs import record
from gpu_profile.runs.record import RunRecord
from gpu_profile.settings.settings import Settings


def load_launcher(name: str) -> type[Launcher]:
    """Return the launcher's class. Only its own module is imported."""
    launcher: type[Launcher] = LAUNCHERS[name].load_class()
    return launcher


def launcher_of(name: str, settings: Settings) -> Launcher:
    return load_launcher(name).from_settings(settings)


def with_image(settings: Settings, image: str) -> Settings:
    """Return the settings with --image as their launcher reads it; unchanged for ""."""
    return load_launcher(settings.launcher).with_image(settings, image) if image else settings


def name_launchers(condition: Callable[[type[Launcher]], bool]) -> str:
    """Return the launchers that fit, for a hint: `slurm, mpijob or trainjob`. Imports them all."""
    *names, last = (name for name in LAUNCHERS if condition(load_launcher(name)))
    return f"{', '.join(names)} or {last}" if names else last


def run_at_home(job_text: str, settings: Settings) -> tuple[Path, RunRecord] | None:
    """Return the directory and record of a --job whose engine has removed it, otherwise None."""
    if not job_text:
        return None
    try:
        directory = record.find_run(settings.report_dir, job_text)
    except SettingsError:
        return None
    run = record.load_run(directory)
    return (directory, run) if run.cleaned else None


def job_of(job_text: str, settings: Settings) -> tuple[Launcher, str] | None:
    """Return the launcher and id of --job, which is a handle or a run id; None without the flag."""
    if not job_text:
        return None
    if "://" not in job_text:
        job_text = record.load_run(record.find_run(settings.report_dir, job_text)).handle
    handle = Handle.parse(job_text)
    return launcher_of(handle.launcher, settings), handle.id
