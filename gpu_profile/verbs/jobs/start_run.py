"""Submit a job into a new run directory, under a name that nothing has."""

from collections.abc import Callable
from pathlib import Path

from gpu_profile.errors import NameTakenError, SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.launcher import Launcher
from gpu_profile.progress import Progress
from gpu_profile.runs import prune, record
from gpu_profile.runs.record import RunRecord
from gpu_profile.runs.runner import Runner
from gpu_profile.settings.settings import Settings


def start_run(
    name: str,
    make_job: Callable[[str], Job],
    launcher: Launcher,
    settings: Settings,
    plan: NsysPlan,
    kinds: tuple[str, ...] = (),
    *,
    secrets: tuple[str, ...] = (),
    keep: bool = False,
    progress: Progress | None = None,
) -> tuple[Runner, RunRecord]:
    """Submit the job that `make_job` returns for a run's name, and return the run.

    The name is free in REPORT_DIR and on the engine: two users, or two REPORT_DIRs, may start
    `train` in one second, and the second gets `train-2`. A SettingsError leaves no directory: the
    job was refused, so that the latest run is still the one before.
    """
    unused: list[Path] = []
    try:
        while True:
            directory = record.create_run(settings.report_dir, name)
            runner = Runner(
                launcher=launcher,
                directory=directory,
                progress=progress or Progress(),
                keep=keep,
                secrets=secrets,
                nsys=settings.nsys,
            )
            try:
                return runner, runner.start(make_job(directory.name), plan, kinds)
            except NameTakenError:
                unused.append(directory)
            except SettingsError:
                unused.append(directory)
                raise
    finally:
        # Also after Ctrl-C: an empty directory would be the latest run.
        prune.remove_runs(unused)
