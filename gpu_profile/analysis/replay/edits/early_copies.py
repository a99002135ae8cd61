"""The change in which pinned memory is copied to the GPU on a stream of its own.

A copy in the stream of the kernels begins when they end, however early it was called. What it
copies was there at the call, so on its own stream it runs beside them.
"""

import numpy as np

from gpu_profile.analysis.activity.activity import COPY, COPY_TO_DEVICE, COPY_TO_HOST
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import choose_ops, match_copies
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights


def copy_early(graph: RunGraph, weights: Weights) -> Weights:
    """Of a copy to the GPU only the part remains that its own stream ends too late for."""
    copies = _list_copies(graph, COPY_TO_DEVICE)
    left = weights.work[copies] - _measure_early(graph)
    return weights.with_work(copies, np.maximum(left, 0))


def _list_copies(graph: RunGraph, copy_kind: int) -> IntArray:
    """The large copies of pinned memory in this direction, in the order of their calls."""
    ops = graph.ops
    chosen = choose_ops(graph) & (ops.kind == COPY) & ~ops.pageable & (ops.call != NONE)
    copies = np.flatnonzero(chosen & (ops.bytes >= STAGED_BYTES) & match_copies(graph, copy_kind))
    return copies[np.argsort(graph.calls.end[ops.call[copies]], kind="stable")]


@once_each
def _measure_early(graph: RunGraph) -> IntArray:
    """How much of each copy (ns) runs before its place in its stream if it waits for its call and
    for the copies called before it alone.

    What runs early spares its time, so calls and kernels after it come as much earlier. Copies
    that take longer than the kernels between them stay the limit.
    """
    ops, copies = graph.ops, _list_copies(graph, COPY_TO_DEVICE)
    ready, rank, start = _find_ready(graph, copies), graph.op_rank[copies], ops.start[copies]
    early = np.zeros(len(copies), np.int64)
    free, spared = dict[int, int](), dict.fromkeys(rank.tolist(), 0)
    columns = (each.tolist() for each in (rank, ready, start, ops.end[copies] - start))
    for row, (of_rank, when, recorded, length) in enumerate(zip(*columns, strict=True)):
        when, recorded = when - spared[of_rank], recorded - spared[of_rank]
        begin = max(when, free.get(of_rank, when))
        free[of_rank] = begin + length
        early[row] = min(max(recorded - begin, 0), length)
        spared[of_rank] += int(early[row])
    return early


def _find_ready(graph: RunGraph, copies: IntArray) -> IntArray:
    """When what is copied is there: at the call, or when the last copy to the host of as many bytes
    has ended that was called before. It may bring what goes back, such as activations.
    """
    ops = graph.ops
    ready = graph.calls.end[ops.call[copies]].copy()
    reads = _list_copies(graph, COPY_TO_HOST)
    for size in np.intersect1d(ops.bytes[reads], ops.bytes[copies]).tolist():
        rows, same = np.flatnonzero(ops.bytes[copies] == size), reads[ops.bytes[reads] == size]
        called = graph.calls.end[ops.call[same]]
        place = np.searchsorted(called, ready[rows]) - 1
        before = np.maximum.accumulate(ops.end[same])[np.maximum(place, 0)]
        ready[rows] = np.where(place >= 0, np.maximum(ready[rows], before), ready[rows])
    return ready
