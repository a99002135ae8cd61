"""The change in which pinned memory is copied to the GPU on a stream of its own.

A copy in the stream of the kernels begins when they end, however early it was called. What it
copies was there at the call, so on its own stream it runs beside them. So does one that is called
right after a wait for the GPU: the host could have called it before.
"""

import numpy as np

from gpu_profile.analysis.activity.activity import COPY, COPY_TO_DEVICE, COPY_TO_HOST
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES
from gpu_profile.analysis.arrays.types import Flags, IntArray, Places
from gpu_profile.analysis.replay.changes import choose_ops, match_copies
from gpu_profile.analysis.replay.edits.host_work import number_stretches
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.simulate import simulate
from gpu_profile.analysis.replay.weights import Weights

MOST_GB_PER_S = 50
"""What a host writes at most: what it copies after a shorter time was in its memory before."""


def copy_early(graph: RunGraph, weights: Weights) -> Weights:
    """Of a copy to the GPU only the part remains that its own stream ends too late for."""
    copies = _list_copies(graph, COPY_TO_DEVICE)
    if not len(copies):
        return weights
    early = _measure_early(graph, copies, simulate(graph, weights))
    return weights.with_work(copies, np.maximum(weights.work[copies] - early, 0))


def _list_copies(graph: RunGraph, copy_kind: int) -> IntArray:
    """The large copies of pinned memory in this direction, in the order of their calls."""
    ops = graph.ops
    chosen = choose_ops(graph) & (ops.kind == COPY) & ~ops.pageable & (ops.call != NONE)
    copies = np.flatnonzero(chosen & (ops.bytes >= STAGED_BYTES) & match_copies(graph, copy_kind))
    return copies[np.argsort(graph.calls.end[ops.call[copies]], kind="stable")]


def _measure_early(graph: RunGraph, copies: IntArray, time: IntArray) -> IntArray:
    """How much of each copy (ns) runs before its place in its stream if it waits for its call and
    for the copies called before it alone.

    `time` is that of each node in the program that is changed: its host calls them earlier without
    the profiler. What runs early spares its time, so calls and kernels after it come as much
    earlier. Copies that take longer than the kernels between them stay the limit.
    """
    ready, rank = _find_ready(graph, copies, time), graph.op_rank[copies]
    start, end = time[graph.nodes.op_start[copies]], time[graph.nodes.op_end[copies]]
    early = np.zeros(len(copies), np.int64)
    free, spared = dict[int, int](), dict.fromkeys(rank.tolist(), 0)
    columns = (each.tolist() for each in (rank, ready, start, end - start))
    for row, (of_rank, when, planned, length) in enumerate(zip(*columns, strict=True)):
        when, planned = when - spared[of_rank], planned - spared[of_rank]
        begin = max(when, free.get(of_rank, when))
        free[of_rank] = begin + length
        early[row] = min(max(planned - begin, 0), length)
        spared[of_rank] += int(early[row])
    return early


def _find_ready(graph: RunGraph, copies: IntArray, time: IntArray) -> IntArray:
    """When what is copied is there: when it can be called, or when the last copy to the host of as
    many bytes has ended that was called before. It may bring what goes back, such as activations.

    What follows a wait may be made of what the host waited for: it is there no earlier before its
    place in its stream than it was in the recording.
    """
    ops, nodes = graph.ops, graph.nodes
    call, follows = _find_earliest_calls(graph, copies)
    lead = ops.start[copies] - graph.calls.end[call]
    latest = time[nodes.op_start[copies]] - np.where(follows, lead, np.iinfo(np.int32).max)
    ready = np.maximum(time[nodes.call_end[call]], latest)
    reads = _list_copies(graph, COPY_TO_HOST)
    for size in np.intersect1d(ops.bytes[reads], ops.bytes[copies]).tolist():
        rows, same = np.flatnonzero(ops.bytes[copies] == size), reads[ops.bytes[reads] == size]
        place = _find_last_reads(graph, ops.call[copies[rows]], ops.call[same])
        before = np.maximum.accumulate(time[nodes.op_end[same]])[np.maximum(place, 0)]
        ready[rows] = np.where(place >= 0, np.maximum(ready[rows], before), ready[rows])
    return ready


def _find_last_reads(graph: RunGraph, calls: Places, reads: Places) -> IntArray:
    """The index in `reads` of the last one called before each call, whose data may come back; NONE
    without one. `reads`: calls in the order of their ends.

    A copy to the GPU right after a read, with no launch and no wait of the host between, brings the
    next frame, and not the result that has just left.
    """
    place = np.searchsorted(graph.calls.end[reads], graph.calls.end[calls]) - 1
    last = reads[np.maximum(place, 0)]
    stretch, waits = number_stretches(graph), np.cumsum(graph.calls.waits)
    is_next = (stretch[last] == stretch[calls]) & (waits[last] == waits[calls])
    return np.asarray(np.maximum(place - is_next, NONE), np.int64)


def _find_earliest_calls(graph: RunGraph, copies: IntArray) -> tuple[IntArray, Flags]:
    """The calls after which each of these copies can be called: its own, or the last launch before
    it, where the host only waits in between, as for the result of a step. And a mask of the copies
    that have to follow such a wait.

    Two such waits a step and more may be for what tells the host which data to copy, as of an
    expert's weights.
    """
    calls, call = graph.calls, graph.ops.call[copies].astype(np.int64)
    stretch = number_stretches(graph)
    launch = np.unique(stretch, return_index=True)[1][stretch[call]]
    waited = np.cumsum(np.where(calls.waits, calls.end - calls.start, 0))
    waited = waited[call - 1] - waited[launch]
    between = calls.start[call] - calls.end[launch] - waited
    follows = (launch < call) & (waited > 0)
    waits = follows & (graph.ops.bytes[copies] > MOST_GB_PER_S * between)
    rank = graph.call_rank[launch]
    turns = np.bincount(graph.call_rank[np.unique(launch[waits])], minlength=len(graph.ranks))
    waits &= turns[rank] <= graph.steps
    return np.asarray(np.where(waits, launch, call), np.int64), follows & ~waits
