"""Open the reports of a run, with their ranks and clocks, for all verbs that read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpu_profile.analysis.multi_report.omissions import readable
from gpu_profile.analysis.multi_report.parallel import collect_partials
from gpu_profile.analysis.multi_report.survey import SURVEY, SURVEY_ALONE, ReportSet, run_of
from gpu_profile.analysis.multi_report.work import Partials, ReportSource
from gpu_profile.analysis.store.open_report import is_url
from gpu_profile.analysis.store.temporary import sweep
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.cli.table import Options
from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.progress import Progress
from gpu_profile.runs import baseline, owner
from gpu_profile.runs import record as rundir
from gpu_profile.runs import report_files as sources
from gpu_profile.settings.settings import Settings


@dataclass(frozen=True)
class Reading:
    """The readable reports, each with its scope. `run` has their ranks and clocks.

    `count` is how many reports were named. With `complete` an unreadable report is an error: a
    gate must not pass on the remaining ranks.
    """

    sources: tuple[ReportSource, ...]
    run: ReportSet
    scheduler: str = ""
    count: int = 1
    complete: bool = False

    def of(self, analyses: Sequence[Analysis]) -> list[list[Any]]:
        """Return the partial results of each readable report, in order.

        Unreadable ones are named on stderr. Raises the error of the only report, or of any with
        `complete`.
        """
        progress = Progress()
        answers = collect_partials(
            self.sources, analyses, scheduler=self.scheduler, tell=progress.say
        )
        read = readable(
            self.sources, answers, progress.say, count=self.count, complete=self.complete
        )
        return [answer for _, answer in read]


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
    scheduler = str(options.get("scheduler", ""))
    kind = SURVEY if len(every) > 1 else SURVEY_ALONE
    answers = collect_partials(every, [kind], scheduler=scheduler, tell=progress.say)
    readable_sources = readable(every, answers, progress.say, complete=complete)
    readable_sources = _of_window(readable_sources, int(options.get("window", 0)))
    run = run_of([answer[0] for _, answer in readable_sources], by)
    # A verb that reads a run for the second time, as profile does with --stats, leaves them out.
    notes = (*run.notes(), *_describe_cost(Path(every[0].place).parent))
    for note in notes if options.get("notes", True) else ():
        progress.say(f"note: {note}")
    scopes = run.join([source.place for source, _ in readable_sources])
    scoped = tuple(
        replace(s, scope=scope) for (s, _), scope in zip(readable_sources, scopes, strict=True)
    )
    return Reading(scoped, run, scheduler, len(every), complete)


def _of_window(
    window_sources: list[tuple[ReportSource, Partials]], window: int
) -> list[tuple[ReportSource, Partials]]:
    """Return the reports of one window, or all for 0. Raises ReportError if there is none."""
    numbers = [answer[0].identity.window[1] for _, answer in window_sources]
    if not window or window in numbers:
        return [
            one
            for one, number in zip(window_sources, numbers, strict=True)
            if number == window or not window
        ]
    window_names = ", ".join(map(str, sorted(set(numbers) - {0}))) or "no windows"
    hint = f"There are {window_names}: `--capture-range-end=repeat:N` records several"
    raise ReportError(f"no report is of window {window}", hint)


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
