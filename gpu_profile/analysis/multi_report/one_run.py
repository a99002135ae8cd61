"""Find reports that are not of one run: one recording twice, or ranks of two runs.

Process ids and host names are alike in containers and after `scrub`, so they are no evidence. The
times of events are, and what NCCL said when the ranks formed their communicator.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_profile.analysis.multi_report.clues import NO_TIMES, EventTimes, read_clues
from gpu_profile.analysis.multi_report.ranks import Identity, first_windows
from gpu_profile.analysis.multi_report.windows import event_span
from gpu_profile.analysis.store.database import Database

# nsys starts seconds apart on the ranks of a job, and hosts without NTP are seconds apart.
MOST_APART_NS = 60_000_000_000


def read_event_times(database: Database) -> EventTimes:
    """The times of the kernels, or without any, of the first and last of other events."""
    times = read_clues(database).times
    return times if times.count else EventTimes(*event_span(database))


@dataclass(frozen=True)
class Evidence:
    """What tells whether a report is of the same run as others; `utc` is the start of its
    session (ns since 1970, 0: not recorded).
    """

    identity: Identity
    utc: int
    times: EventTimes


def find_contradiction(reports: Sequence[Evidence]) -> str:
    """Why these reports are not of one run, or one of them is there twice; "" if they may be."""
    recordings = _join_windows(reports)
    return _find_twice(recordings) or _find_gap(recordings) or _find_strangers(recordings)


def _join_windows(reports: Sequence[Evidence]) -> list[list[Evidence]]:
    """The reports of each recording: all windows of a process are one."""
    recordings: dict[int, list[Evidence]] = {}
    firsts = first_windows([report.identity for report in reports])
    for report, first in zip(reports, firsts, strict=True):
        recordings.setdefault(first, []).append(report)
    return list(recordings.values())


def _find_twice(recordings: Sequence[Sequence[Evidence]]) -> str:
    """A window is there twice if it also starts at the same time as another one of its rank."""
    names: dict[EventTimes, tuple[str, int, int]] = {}
    for number, reports in enumerate(recordings):
        for report in reports:
            name, other, utc = names.get(report.times, ("", 0, 0))
            if name and (other != number or utc == report.utc):
                both = f"{name} and {report.identity.name}"
                return f"{both} are one recording: their events have equal times"
            if report.times != NO_TIMES:
                names[report.times] = report.identity.name, number, report.utc
    return ""


def _find_gap(recordings: Sequence[Sequence[Evidence]]) -> str:
    """Ranks of one run record at the same time, but for MOST_APART_NS."""
    spans = [span for reports in recordings if (span := _find_span(reports))]
    if not spans:
        return ""
    _, ended, early = min(spans, key=lambda span: span[1])
    started, _, late = max(spans, key=lambda span: span[0])
    if started - ended <= MOST_APART_NS:
        return ""
    seconds = (started - ended) / 1e9
    return f"{late} begins {seconds:,.0f} s after {early} ended: they are of two runs"


def _find_span(reports: Sequence[Evidence]) -> tuple[int, int, str] | None:
    """When a recording began and ended (ns since 1970), and its name; None if it does not tell."""
    timed = [report for report in reports if report.utc and report.times != NO_TIMES]
    if not timed:
        return None
    start = min(report.utc + report.times.first for report in timed)
    end = max(report.utc + report.times.last for report in timed)
    return start, end, timed[0].identity.name


def _find_strangers(recordings: Sequence[Sequence[Evidence]]) -> str:
    """A rank of a communicator is one process, and all ranks of a run share a communicator.

    That of all ranks is known by the number of ranks that the environment tells. Communicators of
    tensor or data parallel groups alone are no evidence: ranks of two groups share none.
    """
    reports = [windows[0].identity for windows in recordings]
    return _find_rank_twice(reports) or _find_other_communicator(reports)


def _find_rank_twice(reports: Sequence[Identity]) -> str:
    owners: dict[tuple[int, int], str] = {}
    for report in reports:
        places = {
            (membership.identity, membership.rank)
            for membership in report.memberships
            if membership.identity
        }
        if shared := places & owners.keys():
            place = min(shared)
            return f"{owners[place]} and {report.name} are both rank {place[1]} of a communicator"
        owners |= dict.fromkeys(places, report.name)
    return ""


def _find_other_communicator(reports: Sequence[Identity]) -> str:
    """A report whose communicator of all ranks is not that of the first report that has one."""
    communicators = [
        (report.name, identities)
        for report in reports
        if (identities := _list_communicators(report, report.told_world))
    ]
    processes = sum(len(report.processes) for report in reports)
    if len(communicators) < 2 or processes > max(report.told_world for report in reports):
        return ""
    (first, expected), *others = communicators
    strangers = [name for name, identities in others if not identities & expected]
    return f"{first} and {strangers[0]} share no NCCL communicator" if strangers else ""


def _list_communicators(report: Identity, size: int) -> set[int]:
    """The identities of the report's communicators of this size."""
    return {
        membership.identity
        for membership in report.memberships
        if membership.identity and membership.size == size
    }
