"""Open the reports of a run, with their ranks and clocks, for all verbs that read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_profile.analysis.multi_report.readers import Readers
from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.replay.shadow.plain_step import PlainStep
from gpu_profile.analysis.store.files.open_report import is_url, list_bucket_reports
from gpu_profile.analysis.store.files.temporary import sweep
from gpu_profile.cli.options.shared import ReadOptions, SchedulerOptions, WindowOptions
from gpu_profile.cli.paths import output_file
from gpu_profile.errors import SettingsError
from gpu_profile.files import check_no_input, check_target
from gpu_profile.progress import Progress
from gpu_profile.runs import baseline, owner, record
from gpu_profile.runs.reports import report_files
from gpu_profile.runs.reports.open_reports import Reading, open_reports
from gpu_profile.runs.reports.report_files import find_hidden_trace, list_copies
from gpu_profile.settings.settings import Settings

_OF_OTHER_STEPS = 0.1


@dataclass(frozen=True, kw_only=True)
class ReportChoice:
    """Which reports to read: the files of `report`, or those of `run`; the latest run by default.

    `window` is one of several windows, from 1; 0 takes all. `notes` False prints no notes.
    `together`: the reports are of one run, whatever they hold.
    """

    run: str = ""
    report: tuple[str, ...] = ()
    window: int = 0
    scheduler: str = ""
    notes: bool = True
    together: bool = False

    @classmethod
    def from_options(cls, options: ReadOptions) -> "ReportChoice":
        """Return the choice of a verb's flags, which may lack --window and --scheduler.

        Raises SettingsError if they name a run and reports.
        """
        if options.run and options.report:
            raise SettingsError("--run and --report name two things to read", "Use one of them")
        return cls(
            run=options.run,
            report=options.report,
            window=options.window if isinstance(options, WindowOptions) else 0,
            scheduler=options.scheduler if isinstance(options, SchedulerOptions) else "",
            together=options.together if isinstance(options, WindowOptions) else False,
        )


def open_reading(
    choice: ReportChoice,
    settings: Settings,
    *,
    by: str = "",
    complete: bool = False,
    readers: Readers | None = None,
) -> Reading:
    """Open the chosen reports, by `readers` if given. Unreadable ones are named and left out.

    Raises the error of the only report, or of any with `complete`.
    """
    progress = Progress()
    sweep()
    limit = settings.unpack_limit_bytes
    sources = [ReportSource(place, most_bytes=limit) for place in _list_places(choice, settings)]
    reading = open_reports(
        sources,
        notify=progress.say,
        by=by,
        window=choice.window,
        scheduler=choice.scheduler,
        complete=complete,
        together=choice.together,
        readers=readers,
    )
    # A verb that reads a run for the second time, as profile does with --stats, leaves them out.
    cost = baseline.describe_cost_of(Path(sources[0].place).parent)
    notes = (*_describe_hidden_traces(choice, sources), *reading.run.notes(), cost)
    for note in filter(None, notes if choice.notes else ()):
        progress.say(f"note: {note}")
    return reading


def _describe_hidden_traces(choice: ReportChoice, sources: Sequence[ReportSource]) -> Iterator[str]:
    """Yield a line on each trace that is not read, because nsys' report beside it has its name."""
    for source in sources:
        report = Path(source.place)
        trace = None if source.place in choice.report else find_hidden_trace(report)
        if trace:
            yield f"{trace.name} is not read: {report.name} is of nsys. Move one of them"


def _list_places(choice: ReportChoice, settings: Settings) -> list[str]:
    """Return where each report can be read: local files first, then URLs."""
    urls = [url for place in choice.report if is_url(place) for url in list_bucket_reports(place)]
    files = [place for place in choice.report if not is_url(place)]
    if urls and not files:
        return urls
    paths = find_report_files(replace(choice, report=tuple(files)), settings)
    return [*(str(readable_file(path, settings)) for path in paths), *urls]


def find_report_files(choice: ReportChoice, settings: Settings) -> tuple[Path, ...]:
    """Return the chosen report files."""
    if choice.report:
        return report_files.find_reports(choice.report)
    return report_files.find_reports([str(find_directory(choice.run, settings))])


def find_directory(run_text: str, settings: Settings) -> Path:
    """Return the run's directory. A path may stand for its id, to read another user's run too."""
    run_name = Path(run_text)
    if not run_text or not (run_name / record.RUN_FILE).is_file():
        return record.find_run(settings.report_dir, run_text)
    if owner.is_own(run_name, run_name / record.RUN_FILE):
        owner.warn_if_shared(run_name, run_name / record.RUN_FILE)
    return run_name


def readable_file(path: Path, settings: Settings) -> Path:
    """Return the report, or its SQLite export."""
    if not report_files.needs_export(path):
        return path
    from gpu_profile.verbs.reading.export import (
        export_report,  # slow import, only for exports
    )

    return export_report(path, settings)


def resolve_output(choice: ReportChoice, path_text: str, settings: Settings, name: str) -> Path:
    """Return --output, or a file in the run's directory (here, for reports of no run).

    Raises SettingsError for a device or a FIFO, for a report that is read, and for another user's
    run without --output.
    """
    path = _resolve_place(choice, path_text, settings, name)
    refuse_report(path, choice, settings)
    return path


def refuse_report(path: Path, choice: ReportChoice, settings: Settings) -> None:
    """Raise SettingsError if `path` is a chosen report, or the recording or an export of one."""
    local = tuple(place for place in choice.report if not is_url(place))
    if choice.report and not local:
        return
    reports = find_report_files(replace(choice, report=local), settings)
    check_no_input(path, [copy for report in reports for copy in list_copies(report)])


def _resolve_place(choice: ReportChoice, path_text: str, settings: Settings, name: str) -> Path:
    if path := output_file(path_text, name):
        check_target(path)
        return path
    if choice.report:
        return Path(name)
    place = find_directory(choice.run, settings)
    if not owner.is_own(place, place / record.RUN_FILE):
        whose = owner.describe_foreign(place, place / record.RUN_FILE)
        what = f"{place} is {whose}, where nothing is written"
        raise SettingsError(what, "Name a place of yours by --output")
    return place / name


def find_control(choice: ReportChoice, settings: Settings, told_ms: float = 0.0) -> PlainStep:
    """Return the step without the recording: the one that the user tells, else the run's."""
    if told_ms or choice.report:
        return PlainStep(told_ms)
    return baseline.find_plain_step_of(find_directory(choice.run, settings))


def tell_missed_control(told_ms: float, step_ms: float) -> None:
    """Say that the answer is of another step than --control-ms, which no slower host explains."""
    if told_ms and abs(told_ms - step_ms) > _OF_OTHER_STEPS * step_ms:
        what = f"note: --control-ms {told_ms:g} is not what the replay gives: without the profiler"
        Progress().say(f"{what} a step takes {step_ms:.2f} ms by it, and the answer is of that")


def describe_control(choice: ReportChoice, settings: Settings) -> tuple[str, ...]:
    """Return lines on the run's steps that were not recorded; none of them without such steps."""
    return () if choice.report else baseline.describe_control(find_directory(choice.run, settings))


def describe_tracing_cost(choice: ReportChoice, settings: Settings) -> str:
    """Return a line on what tracing cost the run, if --baseline measured it."""
    if choice.report:
        return ""
    return baseline.describe_cost_of(find_directory(choice.run, settings))
