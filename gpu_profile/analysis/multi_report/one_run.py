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
    told = [report for report in reports if report.utc and report.times != NO_TIMES]
    if not told:
        return None
    start = min(report.utc + report.times.first for report in told)
    end = max(report.utc + report.times.last for report in told)
    return start, end, told[0].identity.name


def _find_strangers(recordings: Sequence[Sequence[Evidence]]) -> str:
    """A rank of a communicator is one process, and all ranks of a run share a communicator.

    That of all ranks is known by the number of ranks that the environment tells. Communicators of
    tensor or data parallel groups alone are no evidence: ranks of two groups share none.
    """
    identities = [reports[0].identity for reports in recordings]
    owners: dict[tuple[int, int], str] = {}
    for one in identities:
        places = {(each.identity, each.rank) for each in one.memberships if each.identity}
        if both := places & owners.keys():
            identity, rank = min(both)
            return f"{owners[identity, rank]} and {one.name} are both rank {rank} of a communicator"
        owners |= dict.fromkeys(places, one.name)
    whole = [
        (one.name, shared)
        for one in identities
        if (shared := _find_communicators_of(one, one.told_world))
    ]
    if len(whole) < 2 or sum(len(one.processes) for one in identities) > identities[0].told_world:
        return ""
    (first, told), *others = whole
    strangers = [name for name, shared in others if not shared & told]
    return f"{first} and {strangers[0]} share no NCCL communicator" if strangers else ""


def _find_communicators_of(report: Identity, size: int) -> set[int]:
    """The identities of the report's communicators of this size."""
    return {one.identity for one in report.memberships if one.identity and one.size == size}
