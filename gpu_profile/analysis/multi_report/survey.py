"""Read the ranks and clocks of a run's reports, which every other analysis needs first."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpu_profile.analysis.multi_report.clocks import Alignment, Clock, align_clocks, read_clock
from gpu_profile.analysis.multi_report.clues import NO_TIMES, EventTimes
from gpu_profile.analysis.multi_report.one_run import Evidence, read_event_times
from gpu_profile.analysis.multi_report.ranks import (
    Identity,
    Ranks,
    assign_ranks,
    first_windows,
    read_identity,
)
from gpu_profile.analysis.multi_report.windows import (
    Span,
    Windows,
    by_number,
    event_span,
    join_scopes,
)
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Column, Table


@dataclass(frozen=True, eq=False)
class Survey:
    """The identity and clock of one report; small when pickled."""

    identity: Identity
    clock: Clock
    span: Span = (0, 0)
    """Times of the first and last event, if the report is one of several windows."""
    times: EventTimes = NO_TIMES
    """The times of its events, that tell it from other recordings; zeros if it is alone."""

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.identity, self.clock.utc, self.times)


@dataclass(frozen=True)
class ReportSet:
    """The reports of a run, in the order of the surveys. `scopes` are for reading each one alone.

    `join` returns the scopes for reading the windows of a process as one recording.
    """

    scopes: tuple[Scope, ...]
    ranks: Ranks
    alignment: Alignment
    windows: Windows = field(default_factory=lambda: Windows((), ()))
    spans: tuple[Span, ...] = ()

    def join(self, places: Sequence[str]) -> tuple[Scope, ...]:
        """The scopes with all windows of a process read together; `places` are the paths."""
        if not self.windows.several:
            return self.scopes
        return join_scopes(self.scopes, self.windows, self.spans, places)

    def notes(self) -> list[str]:
        """Lines that a reader must know, e.g. about missing ranks; empty if there are none."""
        lines = []
        if self.windows.several:
            lines.append(
                f"{len(self.windows.numbers)} windows, read as one series without the time "
                "between them; --window reads one"
            )
        if self.ranks.missing:
            missing = format_names(self.ranks.missing)
            lines.append(f"no report of rank {missing}: what follows is of the others")
        if self.ranks.source == "host and GPU" and len(set(self.windows.first)) > 1:
            lines.append("no report says its rank: numbered by host and GPU")
        if self.alignment.method == "UTC":
            lines.append("no common collective: clocks of the hosts aligned by UTC only")
        if self.alignment.method == "collectives":
            error = (self.alignment.residual_ns or 0) / 1e3
            lines.append(f"clocks of the hosts aligned by collectives, to {error:.1f} us")
        return lines


def format_names(ranks: Sequence[int], most: int = 32) -> str:
    """`0, 1, 2`; of more than `most` ranks the first ones "and N more"."""
    more = f" and {len(ranks) - most} more" if len(ranks) > most else ""
    return ", ".join(map(str, ranks[:most])) + more


def survey_report(database: Database, scope: Scope | None = None) -> Survey:
    """Read what joins reports: identity, clock, span (ns, of a window) and times of events."""
    report_identity = read_identity(database)
    span = event_span(database) if report_identity.window[1] else (0, 0)
    clock = read_clock(database, report_identity.host)
    return Survey(report_identity, clock, span, read_event_times(database))


def _survey_alone(database: Database, _scope: Scope) -> Survey:
    """The survey of a run's only report, without reading its clock, because nothing is compared."""
    report_identity = read_identity(database)
    return Survey(report_identity, Clock(report_identity.host, 0, {}))


def run_of(surveys: Sequence[Survey], by: str = "") -> ReportSet:
    """The ranks and clocks of a run. `by` is passed on to the scopes."""
    identities = [survey.identity for survey in surveys]
    ranks = assign_ranks(identities)
    windows = Windows(
        tuple(identity.window[1] for identity in identities), first_windows(identities)
    )
    alignment = align_windows([survey.clock for survey in surveys], windows)
    pairs = zip(ranks.by_report, alignment.offsets, strict=True)
    count = sum(map(len, ranks.by_report))
    scopes = tuple(Scope(by_pid, offset, by, run_ranks=count) for by_pid, offset in pairs)
    return ReportSet(scopes, ranks, alignment, windows, tuple(survey.span for survey in surveys))


def align_windows(clocks: Sequence[Clock], windows: Windows) -> Alignment:
    """Put all reports on one clock.

    Collectives are compared only within a window, because other windows hold other collectives.
    """
    if not windows.several:
        return align_clocks(clocks)
    begin = min(clock.utc for clock in clocks)
    offsets, parts = [0] * len(clocks), list[Alignment]()
    for indexes in by_number(windows.number).values():
        window_clocks = [clocks[index] for index in indexes]
        parts.append(align_clocks(window_clocks))
        start = min(clock.utc for clock in window_clocks) - begin
        for index, offset in zip(indexes, parts[-1].offsets, strict=True):
            offsets[index] = offset + start
    residuals = [part.residual_ns for part in parts if part.residual_ns is not None]
    return Alignment(tuple(offsets), parts[0].method, max(residuals, default=None))


def _merge_surveys(surveys: Sequence[Survey]) -> Table:
    run = run_of(surveys)
    rows = [
        (rank, survey.identity.name, pid, scope.offset_ns, run.ranks.source, run.alignment.method)
        for survey, scope in zip(surveys, run.scopes, strict=True)
        for pid, rank in scope.ranks.items()
    ]
    return Table("reports", COLUMNS, tuple(sorted(rows)))


COLUMNS = (
    Column("Rank"),
    Column("Report"),
    Column("PID"),
    Column("Offset", "ns"),
    Column("Rank from"),
    Column("Clock from"),
)
SURVEY = Analysis("reports", survey_report, _merge_surveys)
SURVEY_ALONE = Analysis("reports", _survey_alone, _merge_surveys)
