"""Match each collective over the ranks, and split its time into waiting and moving data.

A collective's kernel starts when its rank arrives and ends when all ranks are done. So a rank
waits until the last rank has arrived, and data moves from then on. nsys' own tables show only the
sum of both.

Where the report has NCCL's NVTX payloads, they name the communicator of each kernel
(comm/match_calls.py). Otherwise kernels are matched by their times: the kernels of one
communicator end together, by kinds: an all-reduce ends on all ranks within 2 us, while the root of
a broadcast may have sent all its data, and ended, before the others' kernels start.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, Activity
from gpu_profile.analysis.activity.comm.calls import NO_COMMUNICATOR
from gpu_profile.analysis.activity.comm.lanes import (
    END_SLACK_NS,
    MATCH_SHARE,
    Arrivals,
    Collectives,
    Lane,
    fill,
    guess_shift,
    lane_of,
    no_arrivals,
    shifts,
)
from gpu_profile.analysis.activity.comm.match_calls import match_calls
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.tables.comm_kernels import KINDS, SYMMETRIC_KINDS, TOGETHER_KINDS

# Kernels of one communicator end within 5 us of each other over NVLink on one clock (the median on
# four H200s is 3 us), later where the transfer itself is long or the clocks differ.
END_SPREAD_NS, END_SPREAD_SHARE, END_SPREAD_MOST_NS = 5_000, 0.2, 50_000
# Fewer collectives of the kinds that end together may agree by chance.
LEAST_TOGETHER = 5
_SYMMETRIC = np.array([kind in SYMMETRIC_KINDS for kind in KINDS])
_TOGETHER = np.array([kind in TOGETHER_KINDS for kind in KINDS])


def collectives_of(activity: Activity, offset_ns: int) -> Collectives:
    """The communication kernels of one rank."""
    ops, comm = activity.ops, activity.comm
    rows = np.flatnonzero(ops.kind == COMMUNICATION)
    codes, name = np.unique(ops.name[rows], return_inverse=True)
    names = tuple(activity.names[int(code)] for code in codes)
    start, end = ops.start[rows] + offset_ns, ops.end[rows] + offset_ns
    size = ops.bytes[rows].astype(np.int64)
    kernels = (start, end, ops.stream[rows], name.astype(np.int64), names, size)
    if comm is None:
        return Collectives(*kernels)
    return Collectives(*kernels, comm.communicator, comm.kind, comm.messages, comm.ranks)


@dataclass
class _Group:
    """The lanes of one communicator, each with its `shift`: the row in that lane of the first
    lane's collective 0.
    """

    lanes: list[tuple[Lane, int]]


def match_collectives(
    ranks: Sequence[Collectives], clock_error_ns: int = 0
) -> tuple[Arrivals, ...]:
    """The arrivals of each rank, in the order of `ranks`, which may be any number.

    They are kept for the same ranks: the replay needs them before the states, 0.15 s of eight ranks
    of a million kernels.
    """
    return _match(ranks[0], tuple(map(ref, ranks)), clock_error_ns) if ranks else ()


@once_each
def _match(
    _first: Collectives, refs: tuple[ref[Collectives], ...], clock_error_ns: int
) -> tuple[Arrivals, ...]:
    """Each lane is compared with one lane of each known communicator, not with the lanes of all
    ranks. `refs` are weak: a key that holds the first rank would keep its entry forever.
    """
    ranks = [rank for each in refs if (rank := each()) is not None]
    arrivals = tuple(no_arrivals(len(collectives)) for collectives in ranks)
    number = match_calls(ranks, arrivals, clock_error_ns)
    groups: list[_Group] = []
    for owner, collectives in enumerate(ranks):
        for lane in _split_lanes(owner, collectives):
            _join_lane(groups, lane, clock_error_ns)
    groups = _join_alike(groups, clock_error_ns)
    shared = [group for group in groups if len(group.lanes) > 1]
    for place, group in enumerate(shared):
        fill(arrivals, group.lanes, number + place, clock_error_ns)
    return arrivals


def _split_lanes(owner: int, collectives: Collectives) -> list[Lane]:
    """One lane for each stream, of the kernels whose communicator is unknown; by their first
    start.
    """
    unknown = collectives.communicator == NO_COMMUNICATOR
    lanes = [
        lane_of(owner, collectives, np.flatnonzero(unknown & (collectives.stream == stream)))
        for stream in np.unique(collectives.stream[unknown])
    ]
    return sorted(lanes, key=lambda lane: int(lane.start[0]))


def _join_lane(groups: list[_Group], lane: Lane, clock_error_ns: int) -> None:
    for group in groups:
        first = group.lanes[0][0]
        has_lane = any(other.owner == lane.owner for other, _ in group.lanes)
        shift = None if has_lane else _find_shift(first, lane, clock_error_ns)
        if shift is not None:
            group.lanes.append((lane, shift))
            return
    groups.append(_Group([(lane, 0)]))


def _join_alike(groups: list[_Group], clock_error_ns: int) -> list[_Group]:
    """Join lanes without a partner to a group with the same kernel names in the same order.

    This is done only if some lane is alone: two groups of tensor parallelism also have the same
    names, and must stay apart.
    """
    if all(len(group.lanes) > 1 for group in groups):
        return groups
    joined_groups: list[_Group] = []
    for group in sorted(groups, key=lambda members: -len(members.lanes)):
        is_single = len(group.lanes) == 1
        home = next(
            (other for other in joined_groups if _are_alike(other, group, clock_error_ns)), None
        )
        if is_single and home:
            home.lanes += group.lanes
        else:
            joined_groups.append(group)
    return joined_groups


def _are_alike(group: _Group, other: _Group, clock_error_ns: int) -> bool:
    """Whether the names agree in number and order, and the kernels overlap and end within 1 ms
    (END_SLACK_NS) of each other.
    """
    (first, shift), (lane, _) = group.lanes[0], other.lanes[0]
    owners = {member.owner for member, _ in group.lanes}
    if shift or lane.owner in owners or not np.array_equal(first.name, lane.name):
        return False
    late = np.maximum(first.start, lane.start) - clock_error_ns
    meet = late <= np.minimum(first.end, lane.end)
    apart = float(np.median(np.abs(first.end - lane.end)))
    return bool(meet.mean() >= MATCH_SHARE and apart <= END_SLACK_NS + clock_error_ns)


def _find_shift(first: Lane, lane: Lane, clock_error_ns: int) -> int | None:
    """The shift under which both lanes belong to one communicator, or None."""
    guess = guess_shift(first, lane)
    for shift, rows, other in shifts(len(first.rows), len(lane.rows), guess):
        late = np.maximum(first.start[rows], lane.start[other]) - clock_error_ns
        meet = late <= np.minimum(first.end[rows], lane.end[other])
        kind, is_judged = first.kind[rows], _choose_judged(first.kind[rows])
        if not is_judged.all():
            meet |= ~_SYMMETRIC[kind]
        alike = meet & (first.name[rows] == lane.name[other])
        if alike.mean() < MATCH_SHARE:
            continue
        ends = first.end[rows][is_judged], lane.end[other][is_judged]
        lengths = ends[0] - first.start[rows][is_judged], ends[1] - lane.start[other][is_judged]
        spread = float(np.median(np.abs(ends[0] - ends[1])))
        if spread <= _compute_tolerance(*lengths) + clock_error_ns:
            return shift
    return None


def _choose_judged(kind: NDArray[np.int8]) -> Flags:
    """A mask of the collectives whose ends tell a communicator: those of the kinds that end
    together; all where these are few.
    """
    together = np.asarray(_TOGETHER[kind], np.bool_)
    return together if together.sum() >= LEAST_TOGETHER else np.ones(len(kind), np.bool_)


def _compute_tolerance(first: IntArray, other: IntArray) -> float:
    """How far (ns) the ends of one communicator's kernels are apart, given their lengths."""
    shortest = min(float(np.median(first)), float(np.median(other)))
    return min(max(END_SPREAD_NS, END_SPREAD_SHARE * shortest), END_SPREAD_MOST_NS)
