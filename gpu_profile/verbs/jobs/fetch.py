"""fetch: bring the reports of a job here."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from gpu_profile import process, redact
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import explaining_lost_start, launcher_of
from gpu_profile.cli.options.jobs import FetchOptions
from gpu_profile.errors import (
    EngineAwayError,
    JobError,
    ReportError,
    SettingsError,
    Stopped,
    ToolError,
)
from gpu_profile.job import Handle
from gpu_profile.job_status import JobState
from gpu_profile.launcher import Launcher
from gpu_profile.progress import Progress
from gpu_profile.runs import baseline, output_log, prune, record
from gpu_profile.runs.record import RunRecord
from gpu_profile.runs.reports.validate import has_recordings
from gpu_profile.runs.runner import Runner
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.jobs.tell_run import tell_run, telling_reports

_ATTEMPTS, _PAUSE_S = 3, 1.0  # for the first answer of a job that another machine started


def fetch(options: FetchOptions) -> None:
    """Fetch the reports of a run id or handle. A run of another machine gets a directory here."""
    settings = load_settings(options)
    if not options.job:
        raise SettingsError("fetch needs a job", "Use --job HANDLE or --job RUN-ID")
    known = _find_directory(options.job, settings)
    directory = known or _make_directory(options.job, settings)
    with contextlib.nullcontext() if known else _removing_empty(directory):
        _finish_run(directory, options, settings)


def _finish_run(directory: Path, options: FetchOptions, settings: Settings) -> None:
    """Bring what the run's job left, and say what it tells. Raises the run's own error."""
    run = record.load_run(directory)
    if not run.cleaned:
        launcher = launcher_of(run.launcher, settings)
        runner = Runner(
            launcher=launcher,
            directory=directory,
            progress=Progress(),
            secrets=redact.secret_values(options.environ),
            nsys=settings.nsys,
        )
        with (
            explaining_lost_start(options.job, settings),
            telling_reports(directory, options, settings),
            contextlib.suppress(Stopped),
        ):
            runner.finish(run)
        run = record.load_run(directory)
    tell_run(run, directory, options, settings)
    if run.baseline and not run.reports and options.format != "json":
        print(baseline.describe_cost(run.baseline))
    if run.error:
        raise JobError(run.error)


def _find_directory(run_name: str, settings: Settings) -> Path | None:
    """Return the run's directory; None for the handle of a run that has none here."""
    try:
        return record.find_run(settings.report_dir, run_name)
    except SettingsError:
        if "://" not in run_name:
            raise
    return None


@contextlib.contextmanager
def _removing_empty(directory: Path) -> Iterator[None]:
    """Remove a new run's directory if nothing came into it: it would be the latest run."""
    try:
        yield
    except EngineAwayError:  # `fetch` goes on by the run's id
        raise
    except (SettingsError, ToolError, JobError, ReportError) as error:
        if has_recordings(directory) or output_log.last_line(directory / record.OUTPUT_FILE):
            raise
        prune.remove_runs([directory])
        hint = f"Nothing of it is left, so no run was made in {directory.parent}"
        raise type(error)(error.what, hint) from error


def _make_directory(run_name: str, settings: Settings) -> Path:
    """Make the directory of a handle's run, once its engine has said that the job is ours."""
    handle = Handle.parse(run_name)
    launcher = launcher_of(handle.launcher, settings)
    _require_answer(launcher, handle)
    process.drive(launcher.require_own(handle.id))
    directory = record.create_run(settings.report_dir, Path(handle.id).name)
    new_run = RunRecord(
        id=directory.name, launcher=handle.launcher, command=(), handle=run_name, phase="running"
    )
    record.save_run(new_run, directory)
    return directory


def _require_answer(launcher: Launcher, handle: Handle) -> None:
    """Return once the job's engine has answered. Raises its error, or EngineAwayError.

    The latest run would otherwise be the directory of a job that may not exist.
    """
    for attempt in range(_ATTEMPTS):
        time.sleep(_PAUSE_S if attempt else 0)
        status = process.drive(launcher.status(handle.id))
        if status.state is not JobState.UNKNOWN:
            return
    what = f"{handle} does not answer: {status.reason}"
    raise EngineAwayError(what, "Check the address; no run was made of it here")
