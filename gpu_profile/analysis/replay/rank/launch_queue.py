"""Launches that wait for a place in the launch queue of their stream."""

import numpy as np

from gpu_profile.analysis.activity.activity import NO_CALL, Activity
from gpu_profile.analysis.activity.graph_captures import NO_NODE
from gpu_profile.analysis.arrays.types import IntArray, Places
from gpu_profile.analysis.replay.rank.markers import StreamOrder
from gpu_profile.analysis.replay.rank.rank_graph import make_pairs

DEPTH, MOST_DEPTH = 1022, 1100
"""Operations of a stream that can be outstanding: 1,022 or 1,023 in recordings of H100 and H200,
1,077 in one. So the most that a recording shows is taken, from DEPTH to MOST_DEPTH."""
FULL, LEAST_ROOM = 0.978, 3
"""Recorded events take places too: a long launch behind so much of the depth, or all but so many
operations, waits for the oldest: behind 1,000 of 1,022, or 29 of 32."""
LEAST_DEPTH, LEAST_WAITS, MOST_SPREAD = 16, 8, 2
"""CUDA_SCALE_LAUNCH_QUEUES makes the queue shorter or longer: where so many launches waited, half
of them within so many operations of the most that was ever outstanding, that is its depth."""
LONG_CALL_NS = 50_000
"""A launch that finds room costs some 12 us at most (LAUNCH_COST_NS of run/join.py)."""
RETURN_NS = 20_000
"""A waiting launch returns at most so long after the end that freed its place."""
STRIDE = 16
"""The queue binds seldom: of its dependencies every 16th is kept, 16 launches of 1,022."""


def find_queue_waits(activity: Activity, order: StreamOrder) -> tuple[Places, IntArray]:
    """(operation, call that returns after its end), and the calls that the queue held up."""
    sources, targets, full = list[IntArray](), list[IntArray](), list[IntArray]()
    for rows, _ in order.lanes.values():
        single = activity.ops.graph_node[rows] == NO_NODE
        rows = rows[(activity.ops.call[rows] != NO_CALL) & single]
        depth = _measure_depth(activity, rows)
        if len(rows) > FULL * depth:
            for find in (_find_limits, _find_full):
                source, call, waited = find(activity, rows, depth)
                sources.append(source)
                targets.append(call)
                full.append(call[waited])
    if not sources:
        return make_pairs([], []), np.empty(0, np.int64)
    return make_pairs(np.concatenate(sources), np.concatenate(targets)), np.concatenate(full)


def _measure_depth(activity: Activity, rows: IntArray) -> int:
    """How many operations of the stream can be outstanding."""
    call = activity.ops.call[rows]
    start, returned = activity.calls.start[call], activity.calls.end[call]
    ended = np.searchsorted(np.sort(activity.ops.end[rows]), returned, "right")
    outstanding = np.arange(1, len(rows) + 1) - ended
    most = int(outstanding.max(initial=0))
    waited = outstanding[(returned - start > LONG_CALL_NS) & (outstanding >= LEAST_DEPTH)]
    at_most = np.count_nonzero(waited >= most - MOST_SPREAD)
    if at_most >= LEAST_WAITS and 2 * at_most >= len(waited):
        return most
    return int(np.clip(most, DEPTH, MOST_DEPTH))


def _find_limits(
    activity: Activity, rows: IntArray, depth: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Operation k - depth and the launch of operation k."""
    call = activity.ops.call[rows]
    source, target = rows[:-depth][::STRIDE], call[depth:][::STRIDE]
    holds = activity.ops.end[source] <= activity.calls.end[target]
    return source[holds], target[holds], np.empty(0, np.int64)


def _find_full(
    activity: Activity, rows: IntArray, depth: int
) -> tuple[IntArray, IntArray, IntArray]:
    """The operation at whose end a long launch behind a full queue returned, else the oldest that
    ran or waited when the launch began.

    The next of its stream can wait for another stream: then that one's operation freed the place.
    """
    call = activity.ops.call[rows]
    start, returned = activity.calls.start[call], activity.calls.end[call]
    # A stream's operations can overlap at their ends: searchsorted needs times that never fall.
    ends = np.maximum.accumulate(activity.ops.end[rows])
    oldest = np.minimum(np.searchsorted(ends, start, "right"), len(rows) - 1)
    is_queue_full = np.arange(len(rows)) - oldest >= min(FULL * depth, depth - LEAST_ROOM)
    chosen = np.flatnonzero((returned - start > LONG_CALL_NS) & is_queue_full)
    source, returned = rows[oldest[chosen]], returned[chosen]
    after = returned - ends[oldest[chosen]]
    last = _find_last_ended(activity, returned)
    is_freed = returned - activity.ops.end[last] < RETURN_NS
    source = np.where(((after < 0) | (after > LONG_CALL_NS)) & is_freed, last, source)
    holds = activity.ops.end[source] <= returned
    return source[holds], call[chosen][holds], np.arange(np.count_nonzero(holds))


def _find_last_ended(activity: Activity, time: IntArray) -> IntArray:
    """The operation of any stream that ended last before each time."""
    if not len(time):
        return np.empty(0, np.int64)
    # An operation that runs longer than all these times is not sought. Where none began before
    # (launches queue up before the first one), the first one is near: it ends too late to count.
    began = activity.ops.start
    near = np.flatnonzero(began <= max(int(time.max()), int(began.min())))
    ends = activity.ops.end[near]
    order = np.argsort(ends, kind="stable")
    return near[order[np.searchsorted(ends[order], time, "right") - 1]]
