"""Changes of what the host does: pauses, launches, copies that block, allocations."""

import re
from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.activity import (
    ALLOCATION_NAME,
    COMMUNICATION,
    COPY_TO_DEVICE,
)
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import (
    Apply,
    choose_calls,
    choose_ops,
    find_edges,
    find_releases,
    find_staged_copies,
    find_waits_after,
    free_calls,
    match_copies,
    match_names,
    scale_delays,
    shorten,
    unblock_calls,
)
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights

GRAPH_GAP_NS = 500
"""Between two kernels of a replayed CUDA graph on an H200."""
STREAM_WAIT = re.compile("StreamSynchronize")
LATE_NS = 20_000
"""A longer wait before an operation is for something else than the launch."""
PINNED_GB_PER_S, PINNED_CALL_NS, STREAM_NS = 50.0, 10_000, 1_500
"""Of a copy over PCIe 5 from pinned memory, of the call that queues it, and between operations of a
stream."""


def remove_pauses(ranks: Sequence[int] = ()) -> Apply:
    """The host never pauses: no data loading, logging, checkpoint or garbage collection."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        rows = np.flatnonzero(choose_calls(graph, ranks) & (weights.silent > 0))
        return shorten(graph, weights, graph.nodes.call_start[rows], weights.silent[rows])

    return apply


def free_host(ranks: Sequence[int] = ()) -> Apply:
    """The host takes no time but for pauses, waits and allocations."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        allocates = match_names(graph, ALLOCATION_NAME)[graph.calls.name]
        chosen = choose_calls(graph, ranks) & ~graph.calls.waits & ~allocates
        return free_calls(graph, weights, np.flatnonzero(chosen))

    return apply


def free_launches(ranks: Sequence[int] = ()) -> Apply:
    """Each step as one CUDA graph: no host work but pauses, waits and allocations; kernels follow
    each other within GRAPH_GAP_NS.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        weights = free_host(ranks)(graph, weights)
        rows = np.flatnonzero(choose_ops(graph, ranks) & (graph.ops.kind != COMMUNICATION))
        starts = graph.nodes.op_start[rows]
        starts = starts[graph.has_source[starts] & (weights.delay[starts] < LATE_NS)]
        return weights.with_delay(starts, np.minimum(weights.delay[starts], GRAPH_GAP_NS))

    return apply


def pin_copies(ranks: Sequence[int] = ()) -> Apply:
    """Copies from and to pageable memory use pinned memory and do not block, nor do the waits right
    after those to the GPU: .to(device) has none with non_blocking=True.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        ops, rows = graph.ops, find_staged_copies(graph, ranks)
        fast = np.rint(ops.bytes[rows] / PINNED_GB_PER_S).astype(np.int64) + 1_000
        weights = weights.with_work(rows, np.minimum(weights.work[rows], fast))
        calls = np.unique(ops.call[rows]).astype(np.int64)
        weights = unblock_calls(graph, weights, np.union1d(calls, _find_waits(graph, rows)))
        starts = graph.nodes.op_start[rows[graph.has_source[graph.nodes.op_start[rows]]]]
        weights = weights.with_delay(starts, np.minimum(weights.delay[starts], STREAM_NS))
        edges = find_edges(graph, graph.nodes.call_end[calls], Edge.CALL)
        return weights.with_lag(edges, np.minimum(weights.lag[edges], PINNED_CALL_NS))

    return apply


def _find_waits(graph: RunGraph, copies: IntArray) -> IntArray:
    """The waits for their stream right after those of these copies that go to the GPU."""
    copies = copies[match_copies(graph, COPY_TO_DEVICE)[copies]]
    calls = find_waits_after(graph, graph.ops.call[copies])
    return calls[match_names(graph, STREAM_WAIT)[graph.calls.name[calls]]]


def remove_allocations(ranks: Sequence[int] = ()) -> Apply:
    """cudaMalloc, cudaFree and their like take no time and wait for nothing; memory pools keep
    their memory.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        weights = weights.with_delay(graph.nodes.call_end[find_releases(graph, ranks)], 0)
        allocates = match_names(graph, ALLOCATION_NAME)[graph.calls.name]
        calls = np.flatnonzero(choose_calls(graph, ranks) & allocates)
        weights = unblock_calls(graph, weights, calls)
        weights = weights.with_lag(find_edges(graph, graph.nodes.call_end[calls], Edge.CALL), 0)
        # Between two of these calls the allocator searches its blocks, for a cache that is gone.
        follows = allocates[graph.calls.name[calls - 1]] & (np.diff(calls, prepend=-1) == 1)
        return scale_delays(graph, weights, graph.nodes.call_start[calls[follows]], 0.0)

    return apply
