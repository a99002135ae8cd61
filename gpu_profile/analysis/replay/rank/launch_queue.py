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
FULL = 1000
"""Recorded events take places too: a long launch behind so many operations waits for the oldest."""
LONG_CALL_NS = 50_000
STRIDE = 16
"""The queue binds seldom: of its dependencies every 16th is kept, 16 launches of 1,022."""


def find_queue_waits(activity: Activity, order: StreamOrder) -> tuple[Places, IntArray]:
    """(operation, call that returns after its end), and the calls that the queue held up."""
    sources, targets, full = list[IntArray](), list[IntArray](), list[IntArray]()
    for rows, _ in order.lanes.values():
        single = activity.ops.graph_node[rows] == NO_NODE
        rows = rows[(activity.ops.call[rows] != NO_CALL) & single]
        if len(rows) > FULL:
            for source, call, waited in (_find_limits(activity, rows), _find_full(activity, rows)):
                sources.append(source)
                targets.append(call)
                full.append(call[waited])
    if not sources:
        return make_pairs([], []), np.empty(0, np.int64)
    return make_pairs(np.concatenate(sources), np.concatenate(targets)), np.concatenate(full)


def _find_limits(activity: Activity, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Operation k - depth and the launch of operation k."""
    end, call = activity.ops.end[rows], activity.ops.call[rows]
    returned = activity.calls.end[call]
    ended = np.searchsorted(np.sort(end), returned, "right")
    outstanding = np.arange(1, len(rows) + 1) - ended
    depth = int(np.clip(outstanding.max(initial=0), DEPTH, MOST_DEPTH))
    source, target = rows[:-depth][::STRIDE], call[depth:][::STRIDE]
    holds = activity.ops.end[source] <= activity.calls.end[target]
    return source[holds], target[holds], np.empty(0, np.int64)


def _find_full(activity: Activity, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """The oldest operation that ran or waited when a long launch began behind a full queue."""
    call = activity.ops.call[rows]
    start, returned = activity.calls.start[call], activity.calls.end[call]
    ends = np.maximum.accumulate(activity.ops.end[rows])
    oldest = np.minimum(np.searchsorted(ends, start, "right"), len(rows) - 1)
    full = (returned - start > LONG_CALL_NS) & (np.arange(len(rows)) - oldest >= FULL)
    chosen = np.flatnonzero(full & (ends[oldest] <= returned))
    return rows[oldest[chosen]], call[chosen], np.arange(len(chosen))
