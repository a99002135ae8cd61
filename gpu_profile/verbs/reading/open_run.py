"""Open the reports of a run, with their ranks and clocks, for all verbs that read."""

from pathlib import Path

from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.store.open_report import is_url
from gpu_profile.analysis.store.temporary import sweep
from gpu_profile.cli.table import Options
from gpu_profile.errors import SettingsError
from gpu_profile.progress import Progress
from gpu_profile.runs import baseline, owner
from gpu_profile.runs import record as rundir
from gpu_profile.runs import report_files as sources
from gpu_profile.runs.open_reports import Reading, open_reports
from gpu_profile.settings.settings import Settings


def open_reading(
    options: Options, chosen: Settings, *, by: str = "", complete: bool = False
) -> Reading:
    """Open the reports of --run or --report. Unreadable ones are named and left out.

    Raises the error of the only report, or of any with `complete`.
    """
    progress = Progress()
    sweep()
    limit = int(chosen.unpack_limit_gb) * 10**9
    every = [ReportSource(place, most_bytes=limit) for place in _list_places(options, chosen)]
    reading = open_reports(
        every,
        tell=progress.say,
        by=by,
        window=int(options.get("window", 0)),
        scheduler=str(options.get("scheduler", "")),
        complete=complete,
    )
    # A verb that reads a run for the second time, as profile does with --stats, leaves them out.
    notes = (*reading.run.notes(), *_describe_cost(Path(every[0].place).parent))
    for note in notes if options.get("notes", True) else ():
        progress.say(f"note: {note}")
    return reading


def _list_places(options: Options, chosen: Settings) -> list[str]:
    """Return where each report can be read: local files first, then URLs."""
    urls = [place for place in options["report"] if is_url(place)]
    files = [place for place in options["report"] if not is_url(place)]
    if urls and not files:
        return urls
    files_found = find_report_files({**options, "report": files}, chosen)
    return [*(str(readable_file(path, chosen)) for path in files_found), *urls]


def _describe_cost(place: Path) -> list[str]:
    """Return a line on the cost of profiling, if the run measured it."""
    try:
        sentence = baseline.describe_cost(rundir.load_run(place).baseline)
    except SettingsError:  # no run, or a damaged record: the reports can be read anyway
        return []
    return [sentence] if sentence else []


def find_report_files(options: Options, chosen: Settings) -> tuple[Path, ...]:
    """Return the report files of --report, of --run, or of the latest run."""
    if options["report"]:
        return sources.find_reports(options["report"])
    return sources.find_reports([str(find_directory(options, chosen))])


def find_directory(options: Options, chosen: Settings) -> Path:
    """Return the run's directory. A path may stand for its id, to read another user's run too."""
    run_name = Path(str(options["run"]))
    if not options["run"] or not (run_name / rundir.RUN_FILE).is_file():
        return rundir.find_run(chosen.report_dir, str(options["run"]))
    if owner.is_own(run_name, run_name / rundir.RUN_FILE):
        owner.warn_if_shared(run_name, run_name / rundir.RUN_FILE)
    return run_name


def readable_file(path: Path, chosen: Settings) -> Path:
    """Return the report, or its SQLite export."""
    if path.suffix != ".nsys-rep":
        return path
    from gpu_profile.verbs.reading.export import (
        export_report,  # slow import, only for exports
    )

    return export_report(path, chosen)
