"""Align the clocks of several reports, each of which counts from its own start.

Reports of one host share its clock, and the UTC time of each start relates them to within some
microseconds (1 us between four sessions of one host). Between hosts that only use NTP, UTC differs
by up to tens of milliseconds. But a collective ends on all its ranks at once, so the median
difference of the ends is the difference of the clocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.multi_report.clues import read_clues
from gpu_profile.analysis.store.cells import integer_or_none
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records

# Of two collectives each pairing has differences that hardly vary: the third one tells.
LEAST_MATCHES = 3
# Collectives that the capture of one rank may miss at its start, and more where it holds fewer.
MOST_SHIFT, MOST_MISSED = 24, 64
MOST_RESIDUAL_NS = 1_000_000  # above 1 ms the compared kernels are not the same collectives
# A pairing may be shifted by whole steps of a loop and vary as little as the right one. So a clock
# that is off by 20 ms against UTC counts like ends that vary by 20 us. Of 10 collectives one may
# end late, on a rank whose process is descheduled.
WEIGHT_OF_UTC, MOST = 0.001, 0.9
# So many collectives tell a pairing; more cost time only.
SAMPLE = 4096


@dataclass(frozen=True, eq=False)
class Clock:
    """What one report tells about its clock.

    `utc` is the start of the session (ns since 1970, 0: not recorded). `ends` are the ends of the
    collectives of one process by kernel name, ns from that start, rising.
    """

    host: str
    utc: int
    ends: Mapping[str, IntArray]


@dataclass(frozen=True)
class Alignment:
    """`offsets` (ns) to add to the times of each report.

    `method` is "one report", "one host", "collectives" or "UTC". `residual_ns` is the 95th
    percentile of the remaining differences between collectives' ends; None if none could be
    compared, and the offsets are from UTC only.
    """

    offsets: tuple[int, ...]
    method: str
    residual_ns: int | None


def read_clock(database: Database, host: str) -> Clock:
    """The clock of one report."""
    return Clock(host, read_session_start(database), read_clues(database).ends)


def read_session_start(database: Database) -> int:
    """When the report's session started (ns since 1970); 0 where it does not say so."""
    column = integer_or_none("utcEpochNs")
    starts = [utc for (utc,) in read_records(database, "TARGET_INFO_SESSION_START_TIME", column)]
    return (starts[0] or 0) if starts else 0


def align_clocks(clocks: Sequence[Clock]) -> Alignment:
    """The offsets to the clock of the report that started first."""
    if len(clocks) < 2:
        return Alignment((0,) * len(clocks), "one report", None)
    first = min(clocks, key=lambda clock: clock.utc)
    offsets = np.array([clock.utc - first.utc for clock in clocks], np.int64)
    hosts = sorted({clock.host for clock in clocks})
    differences = [
        _list_differences(first, clock, int(offset))
        for clock, offset in zip(clocks, offsets, strict=True)
    ]
    if len(hosts) > 1:
        return _by_hosts(clocks, first, offsets, differences)
    residual = _compute_residual(differences)
    # The reports of one host have one clock. Where ends differ by more, the windows of the ranks
    # hold other collectives, and the difference is no error of the clock.
    compared = residual is not None and residual <= MOST_RESIDUAL_NS
    return Alignment(tuple(offsets.tolist()), "one host", residual if compared else None)


def _by_hosts(
    clocks: Sequence[Clock], first: Clock, offsets: IntArray, differences: list[IntArray]
) -> Alignment:
    """Shift every other host by the median difference of its reports' collectives."""
    shifted, pending = offsets.copy(), []
    for host in sorted({clock.host for clock in clocks}):
        indexes = [index for index, clock in enumerate(clocks) if clock.host == host]
        joined = np.concatenate([differences[index] for index in indexes])
        shift = 0 if host == first.host or not len(joined) else round(float(np.median(joined)))
        shifted[indexes] += shift
        pending += [joined - shift]
        # One host without a shift of its own would be wrong beside those that have one, so UTC is
        # then the clock of all.
        if host != first.host and len(joined) < LEAST_MATCHES:
            return Alignment(tuple(offsets.tolist()), "UTC", None)
    residual = _compute_residual(pending)
    if residual is None or residual > MOST_RESIDUAL_NS:
        return Alignment(tuple(offsets.tolist()), "UTC", None)
    return Alignment(tuple(shifted.tolist()), "collectives", residual)


def _compute_residual(differences: Sequence[IntArray]) -> int | None:
    joined = np.concatenate(differences) if differences else np.empty(0)
    return round(float(np.percentile(np.abs(joined), 95))) if len(joined) else None


def _list_differences(first: Clock, other: Clock, offset: int) -> IntArray:
    """How much later (ns) the first report's collectives end than the other's, shifted by
    `offset`.
    """
    if other is first:
        return np.empty(0, np.int64)
    common = sorted(set(first.ends) & set(other.ends))
    parts = [_match_ends(first.ends[name], other.ends[name] + offset) for name in common]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _match_ends(ours: IntArray, theirs: IntArray) -> IntArray:
    """Differences of the ends, paired one to one, under the shift whose differences vary least and
    are small.
    """
    # min() takes the first of equals, and _pairings() yields the smallest shift first: a loop whose
    # steps are exactly alike is not shifted.
    return min(_pairings(ours, theirs), key=_unlikelihood, default=np.empty(0, np.int64))


def _unlikelihood(differences: IntArray) -> float:
    """How little (ns) these look like the ends of the same collectives."""
    differences = differences[:SAMPLE]
    center = float(np.median(differences))
    spread = float(np.quantile(np.abs(differences - center), MOST))
    return spread + WEIGHT_OF_UTC * abs(center)


def _pairings(ours: IntArray, theirs: IntArray) -> Iterator[IntArray]:
    """Yield the differences of the ends under each shift, the smallest shift first."""
    most = MOST_SHIFT + min(abs(len(ours) - len(theirs)), MOST_MISSED)
    for shift in sorted(range(-most, most + 1), key=abs):
        ours_cut, right = ours[max(shift, 0) :], theirs[max(-shift, 0) :]
        length = min(len(ours_cut), len(right))
        # Fewer than half of the collectives agree by chance: a large shift compares two edges only.
        if length >= max(LEAST_MATCHES, min(len(ours), len(theirs)) / 2):
            yield ours_cut[:length] - right[:length]
