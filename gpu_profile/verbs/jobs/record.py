"""record: record a window of a job that runs, and bring its reports here."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import job_of, run_at_home
from gpu_profile.cli.options.jobs import KEPT, RecordOptions
from gpu_profile.errors import JobError, ReportError, SettingsError, ToolError
from gpu_profile.job import parse_ranks
from gpu_profile.job_status import JobState
from gpu_profile.launcher import Launcher
from gpu_profile.nsys.recorder import (
    OFF,
    Recorder,
    Schedule,
    Window,
    WindowRequest,
    parse_schedule,
)
from gpu_profile.printable import name_program
from gpu_profile.progress import Progress
from gpu_profile.runs import record as runs
from gpu_profile.runs.record_endpoint import record_by_url
from gpu_profile.runs.reports.armed_cost import describe_armed_cost
from gpu_profile.runs.reports.export_report import export_fetched
from gpu_profile.runs.reports.lost_launches import describe_lost_kernels
from gpu_profile.runs.reports.validate import Report, check_events, find_reports, summarise_report
from gpu_profile.settings.settings import Settings

_LONGEST_S = 300.0


def record(options: RecordOptions) -> None:
    """Record a window in all ranks at once, fetch and validate its reports. The job goes on."""
    settings = load_settings(options)
    request = _make_request(options)
    launcher, job_id = _find_job(options.job, settings)
    _require_running(launcher, job_id, options.job)
    directory = runs.find_run(settings.report_dir, options.job)
    if options.url:
        Progress().show(f"recording {request.seconds:g} s")
        reports = record_by_url(launcher, job_id, directory, options.url, request.seconds)
        _tell_reports(launcher, job_id, directory, reports, settings)
        return
    if not isinstance(launcher, Recorder):
        what = f"jobs of --on {launcher.name} cannot be recorded while they run"
        raise ToolError(what, "Record them from their start: `invoke profile` without --record")
    Progress().show(f"recording {_describe(request)}")
    last = max((report.window for report in find_reports(directory)), default=0)
    window = process.drive(launcher.record(job_id, replace(request, last_window=last)))
    if options.every and options.every != OFF:
        _tell_schedule(request, window.number, directory, options)
        return
    process.drive(launcher.fetch(job_id, directory))
    if options.every:
        _tell_windows(directory)
        return
    _tell_reports(launcher, job_id, directory, _list(directory, window), settings, window)


def _tell_reports(
    launcher: Launcher,
    job_id: str,
    directory: Path,
    reports: Sequence[Report],
    settings: Settings,
    window: Window | None = None,
) -> None:
    """Read and print a window's reports. Raises ReportError for a damaged or a lost one."""
    kinds = runs.load_run(directory).kinds
    for report in reports:
        print(_read_report(launcher, job_id, report, kinds, settings))
    by_nsys = [report for report in reports if report.path.suffix == ".nsys-rep"]
    for report in by_nsys[:1]:  # ranks are alike
        if cost := describe_armed_cost(report.path, report.sqlite):
            Progress().say(cost)
    if window:
        _check(window)
    print(name_program(describe_end(directory.name, window)))


def describe_end(run: str, window: Window | None) -> str:
    """Return the line on what comes next. Of a window that ended early the program may have too."""
    ended_early = window is not None and any(rank.note for rank in window.ranks)
    state = "" if ended_early else "; the job goes on"
    return f"`invoke diagnose --run {run}` reads them{state}"


def _tell_schedule(
    request: WindowRequest, number: int, directory: Path, options: RecordOptions
) -> None:
    print(f"a window of {_describe(request)} begins each {options.every}, from {number} on")
    again = f"`invoke record --job {directory.name} --every off` ends that and brings them"
    print(name_program(f"the latest {options.keep or KEPT} are kept; {again}"))


def _tell_windows(directory: Path) -> None:
    count = len({report.window for report in find_reports(directory)})
    compare = f"`invoke reports --trend --run {directory.name}` compares them"
    print(name_program(f"{count} windows are in {directory}; {compare}"))


def _make_request(options: RecordOptions) -> WindowRequest:
    if not options.job:
        raise SettingsError("record needs a job", "Use --job HANDLE or --job RUN-ID")
    if options.url and (options.steps or options.every or options.ranks != "all"):
        what = "--url has the server record, for --seconds alone"
        raise SettingsError(what, "Leave out --steps, --every and --ranks")
    if options.keep and options.every in ("", OFF):
        what = f"--keep {options.keep} is for windows that repeat: a single one is always kept"
        raise SettingsError(what, "Add --every 10m, or leave it out")
    if options.every == OFF:
        return WindowRequest(seconds=0, schedule=Schedule(every_s=0, keep=0))
    if options.steps and options.seconds:
        raise SettingsError("--steps and --seconds are two lengths of a window", "Give one of them")
    how_long = "Use --seconds 5" if options.url else "Use --seconds 5, or --steps 10"
    if not options.seconds and not options.steps:
        raise SettingsError("record does not know how long a window is", how_long)
    seconds = options.seconds or _LONGEST_S
    if not 0 < seconds <= _LONGEST_S:
        what = f"--seconds {seconds:g} is not above 0 and at most {_LONGEST_S:g}"
        raise SettingsError(what, how_long)
    ranks = parse_ranks(options.ranks) or frozenset()
    keep = int(options.keep or KEPT)
    schedule = parse_schedule(options.every, keep, seconds) if options.every else None
    return WindowRequest(seconds=seconds, steps=options.steps, ranks=ranks, schedule=schedule)


def _describe(request: WindowRequest) -> str:
    return f"{request.steps} steps" if request.steps else f"{request.seconds:g} s"


def _find_job(job_text: str, settings: Settings) -> tuple[Launcher, str]:
    home = run_at_home(job_text, settings)
    job = None if home else job_of(job_text, settings)
    if job is None:
        raise JobError(f"{job_text} has ended", "`invoke profile --record manual` starts another")
    return job


def _require_running(launcher: Launcher, job_id: str, job_text: str) -> None:
    state = process.drive(launcher.status(job_id)).state
    if state is not JobState.RUNNING:
        what = f"{job_text} does not run: it is {state.value}"
        raise JobError(what, f"`invoke status --job {job_text}` says more")


def _list(directory: Path, window: Window) -> list[Report]:
    """Return the window's reports that were fetched.

    Pods without numbers get one at the fetch, so that the rank in a name may be another.
    """
    # Compared after the rank: `rank0.node1.2.nsys-rep` is `node1.2.nsys-rep` here.
    names = {rank.report.partition(".")[2] for rank in window.ranks if rank.report}
    reports = find_reports(directory)
    return [report for report in reports if report.path.name.partition(".")[2] in names]


def _read_report(
    launcher: Launcher, job_id: str, report: Report, kinds: Sequence[str], settings: Settings
) -> str:
    """Export and read a report; return a line on it.

    Raises ReportError if it is damaged, or has no event of one of `kinds`.
    """
    export_fetched(launcher, job_id, report, settings.nsys)
    facts = summarise_report(report)
    if lost := describe_lost_kernels(report.path, report.sqlite, facts.events):
        Progress().say(lost)
    check_events(report, facts.events, kinds)
    counts = ", ".join(f"{count} {kind}" for kind, count in facts.events.items() if count)
    return f"{report.path}: {facts.bytes / 1e6:.1f} MB, {counts or 'no'} events"


def _check(window: Window) -> None:
    """Say which ranks end early. Raises ReportError unless every rank recorded the window."""
    for rank in window.ranks:
        if rank.note:
            Progress().say(f"window {window.number} of {rank.name} ended early: {rank.note}")
    lost = [f"{rank.name}: {rank.why}" for rank in window.ranks if rank.why]
    if lost:
        what = f"window {window.number} is lost: {'; '.join(lost)}"
        raise ReportError(what, "The job goes on; `invoke status` tells its state")
