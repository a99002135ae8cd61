"""Open a run from Python by its name, directory, files or URLs."""

import os
import warnings
from collections.abc import Iterable
from pathlib import Path

from gpu_profile import process
from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.store.files.open_report import is_url, list_bucket_reports
from gpu_profile.api.run import Run
from gpu_profile.runs.record import find_run
from gpu_profile.runs.reports.open_reports import open_reports
from gpu_profile.runs.reports.report_files import find_reports, needs_export
from gpu_profile.settings.lookup import find_settings_file
from gpu_profile.settings.settings import NAMES, Settings, load_settings
from gpu_profile.verbs.reading.export import export_report

Place = str | os.PathLike[str]


def open_run(
    run: Place | Iterable[Place] = "",
    *,
    report_dir: Place | None = None,
    window: int = 0,
    workers: int = 1,
    together: bool = False,
) -> Run:
    """Open the reports of one run, for example `gpu_profile.open("train-20261121-031500")`.

    `run` is a run's id or name in `report_dir` (default: the setting REPORT_DIR), a path of a run
    directory or of reports, a URL such as "s3://bucket/rank0.sqlite", several of those, or "" for
    the latest run. `window` selects one of several windows, from 1. `workers` is the number of
    processes that read; more than one needs the guard `if __name__ == "__main__"` in a script, as
    multiprocessing does. The setting UNPACK_LIMIT_GB bounds what a .gz unpacks to. Reports that
    cannot be read are left out with a warning. Reports that prove to be of several runs are
    refused, unless `together` says that they belong together.

    Raises ReportError if there is no readable report, or if they are of several runs, and
    SettingsError for an unknown run.
    """
    names = [run] if isinstance(run, str | os.PathLike) else list(run)
    places = list(_list_places([os.fspath(name) for name in names], report_dir))
    limit = _load_settings().unpack_limit_bytes
    reading = open_reports(
        [ReportSource(place, most_bytes=limit) for place in places],
        notify=_warn,
        window=window,
        workers=workers,
        together=together,
    )
    is_file = len(names) == 1 and Path(names[0]).is_file()
    return Run(places=tuple(places), reading=reading, is_file=is_file)


def _list_places(names: list[str], report_dir: Place | None) -> Iterable[str]:
    """Yield the path or URL of each report; what needs an export is exported first."""
    yield from (url for name in names if is_url(name) for url in list_bucket_reports(name))
    local = [_find_local(name, report_dir) for name in names if not is_url(name)]
    if not local:
        return
    for path in find_reports(local):
        yield str(export_report(path, _load_settings()) if needs_export(path) else path)


def _find_local(name: str, report_dir: Place | None) -> str:
    """Return a path as it is, and the directory of a run's id or name."""
    if name and Path(name).exists():
        return name
    directory = _load_settings().report_dir if report_dir is None else report_dir
    return str(find_run(Path(directory), name))


def _load_settings() -> Settings:
    """Return the settings of the current directory and the environment, as a verb has them."""
    return load_settings(find_settings_file("", NAMES).path, process.make_environment())


def _warn(line: str) -> None:
    """Warn about what a reader must know, such as an unreadable report; drop lines on progress."""
    if line.startswith(("note: ", "left out: ")):
        warnings.warn(line, stacklevel=2)
