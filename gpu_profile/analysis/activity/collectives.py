"""Match each collective over the ranks, and split its time into waiting and moving data.

A collective's kernel starts when its rank arrives and ends when all are done. So on each rank it
waits until the last one has arrived and moves data from then on. NVIDIA's tools sum up both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, Activity
from gpu_profile.analysis.arrays.types import IntArray

# The same communicator's kernels end together: 5 us apart at most over NVLink on one clock (the
# median on four H200s is 3 us), more where the transfer itself is long or the clocks differ.
END_SPREAD_NS, END_SPREAD_SHARE, END_SPREAD_MOST_NS = 5_000, 0.2, 50_000
# A capture may miss a few collectives of one rank at its start.
MOST_SHIFT = 8
MATCH_SHARE = 0.9
UNMATCHED = -1


@dataclass(frozen=True, eq=False)
class Collectives:
    """One rank's communication kernels, sorted by start, in the run's clock.

    `stream` tells communicators apart (NCCL gives each its own). `name` indexes `names`.
    `bytes` is the message's size, 0 where unknown.
    """

    start: IntArray
    end: IntArray
    stream: IntArray
    name: IntArray
    names: tuple[str, ...]
    bytes: IntArray

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Per collective of one rank: `last`, when the last rank arrived; the communicator's `group`
    number (UNMATCHED without one) and number of `ranks`; `late`: this rank against the others
    (ns, positive when it came last); and the `order` of the collective within its group."""

    last: IntArray
    group: IntArray
    ranks: IntArray
    late: IntArray
    order: IntArray

    @property
    def matched(self) -> NDArray[np.bool_]:
        return np.asarray(self.group != UNMATCHED)


def collectives_of(activity: Activity, offset_ns: int) -> Collectives:
    """The communication kernels of one rank."""
    ops = activity.ops
    rows = np.flatnonzero(ops.kind == COMMUNICATION)
    codes, name = np.unique(ops.name[rows], return_inverse=True)
    names = tuple(activity.names[int(code)] for code in codes)
    start, end = ops.start[rows] + offset_ns, ops.end[rows] + offset_ns
    numbers = name.astype(np.int64)
    return Collectives(start, end, ops.stream[rows], numbers, names, ops.bytes[rows])


@dataclass(frozen=True, eq=False)
class _Lane:
    """One stream of one rank; `rows` indexes the rank's Collectives."""

    owner: int
    rows: IntArray
    start: IntArray
    end: IntArray
    name: NDArray[np.str_]


@dataclass
class _Group:
    """Lanes of one communicator; `shift` is the lane's index of the first lane's collective 0."""

    lanes: list[tuple[_Lane, int]]


def match(ranks: Sequence[Collectives], clock_error_ns: int = 0) -> tuple[Arrivals, ...]:
    """Arrivals per rank, in the order given. Exact for any number of ranks: each lane is
    compared with one lane of each communicator found so far."""
    groups: list[_Group] = []
    for owner, collectives in enumerate(ranks):
        for lane in _lanes(owner, collectives):
            _join(groups, lane, clock_error_ns)
    found = tuple(_unmatched(len(collectives)) for collectives in ranks)
    shared = [group for group in groups if len(group.lanes) > 1]
    for number, group in enumerate(shared):
        _fill(found, group, number)
    return found


def _lanes(owner: int, collectives: Collectives) -> list[_Lane]:
    names = np.array(collectives.names)
    lanes = []
    for stream in np.unique(collectives.stream):
        rows = np.flatnonzero(collectives.stream == stream)
        name = names[collectives.name[rows]]
        lanes.append(_Lane(owner, rows, collectives.start[rows], collectives.end[rows], name))
    return sorted(lanes, key=lambda lane: int(lane.start[0]))


def _join(groups: list[_Group], lane: _Lane, clock_error_ns: int) -> None:
    for group in groups:
        first = group.lanes[0][0]
        taken = any(other.owner == lane.owner for other, _ in group.lanes)
        shift = None if taken else _shift(first, lane, clock_error_ns)
        if shift is not None:
            group.lanes.append((lane, shift))
            return
    groups.append(_Group([(lane, 0)]))


def _shift(first: _Lane, lane: _Lane, clock_error_ns: int) -> int | None:
    """The shift that makes the two lanes one communicator's, if one does."""
    most = min(MOST_SHIFT, len(first.rows) - 1, len(lane.rows) - 1)
    for shift in sorted(range(-most, most + 1), key=abs):
        mine, theirs = max(0, shift), max(0, -shift)
        size = min(len(lane.rows) - mine, len(first.rows) - theirs)
        if 2 * size < min(len(lane.rows), len(first.rows)):
            continue
        one, other = slice(theirs, theirs + size), slice(mine, mine + size)
        late = np.maximum(first.start[one], lane.start[other]) - clock_error_ns
        meet = late <= np.minimum(first.end[one], lane.end[other])
        alike = meet & (first.name[one] == lane.name[other])
        spread = np.median(np.abs(first.end[one] - lane.end[other]))
        if alike.mean() >= MATCH_SHARE and spread <= _tolerance(first, lane) + clock_error_ns:
            return shift
    return None


def _tolerance(first: _Lane, lane: _Lane) -> float:
    shortest = min(float(np.median(x.end - x.start)) for x in (first, lane))
    return min(max(END_SPREAD_NS, END_SPREAD_SHARE * shortest), END_SPREAD_MOST_NS)


def _unmatched(count: int) -> Arrivals:
    zeros = [np.zeros(count, np.int64) for _ in range(3)]
    group = np.full(count, UNMATCHED)
    return Arrivals(zeros[0], group, np.ones(count, np.int64), zeros[1], zeros[2])


def _fill(found: tuple[Arrivals, ...], group: _Group, number: int) -> None:
    """Write the group's arrivals into its ranks'; indices that only some have stay unmatched."""
    begin = max(-shift for _, shift in group.lanes)
    stop = min(len(lane.rows) - shift for lane, shift in group.lanes)
    parts = [slice(begin + shift, stop + shift) for _, shift in group.lanes]
    starts = np.stack([lane.start[p] for (lane, _), p in zip(group.lanes, parts, strict=True)])
    ordered = np.sort(starts, axis=0)
    for (lane, _), part, start in zip(group.lanes, parts, starts, strict=True):
        rows = lane.rows[part]
        arrivals = found[lane.owner]
        others = np.where(start == ordered[-1], ordered[-2], ordered[-1])
        arrivals.last[rows] = ordered[-1]
        arrivals.late[rows] = start - others
        arrivals.group[rows] = number
        arrivals.ranks[rows] = len(group.lanes)
        arrivals.order[rows] = np.arange(len(rows))
