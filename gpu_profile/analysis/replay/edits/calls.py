"""Changes of what the host does: pauses, launches, copies that block, allocations."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.activity import (
    ALLOCATION_NAME,
    COMMUNICATION,
    COMPUTE,
    SET,
)
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import (
    Apply,
    choose_calls,
    choose_ops,
    find_edges,
    find_releases,
    find_staged_copies,
    free_calls,
    match_names,
    scale_delays,
    shorten,
    unblock_calls,
)
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights

GRAPH_GAP_NS = 500
"""Between two kernels of a replayed CUDA graph on an H200."""
LATE_NS = 20_000
"""A longer wait before an operation is for something else than the launch."""
TINY_NS, TINY_RUN = 5_000, 6
"""Loops over tensors launch six to hundreds of such kernels in a row. The layers of a model have
tiny kernels, too, but between others: ResNet-50 has 471 a step, 12 of them in such rows, BERT 200
and 8. What fuses the loop leaves the others."""
EMPTY_NS = 700
"""A kernel takes as long whatever it does: the shortest ones of 50 programs take 0.67 to 0.99 us
(H100, H200)."""
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


def free_tiny_launches(ranks: Sequence[int] = ()) -> Apply:
    """Kernels and fills of memory shorter than TINY_NS that are launched in a row are fused: their
    launches take no time, and the first of a row alone takes EMPTY_NS to begin and end.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        ops = graph.ops
        works = (ops.kind == COMPUTE) | (ops.kind == SET)
        tiny = choose_ops(graph, ranks) & works & (ops.call != NONE)
        tiny &= ops.end - ops.start < TINY_NS
        only_tiny = np.zeros(len(graph.calls.start), bool)
        only_tiny[ops.call[tiny]] = True
        only_tiny[ops.call[~tiny & (ops.call != NONE)]] = False
        launches = np.unique(ops.call[ops.call != NONE]).astype(np.int64)
        runs = mark_runs(only_tiny[launches], graph.calls.thread[launches].astype(np.int64))
        in_row, later = launches[runs], launches[1:][runs[1:] & runs[:-1]]
        fused = np.zeros(len(graph.calls.start), bool)
        fused[later] = True
        weights = _fuse_kernels(graph, weights, np.flatnonzero(tiny & fused[ops.call]))
        return free_calls(graph, weights, in_row[~graph.calls.waits[in_row]])

    return apply


def _fuse_kernels(graph: RunGraph, weights: Weights, ops: IntArray) -> Weights:
    """These kernels are a part of the ones before them."""
    weights = weights.with_work(ops, np.maximum(weights.work[ops] - EMPTY_NS, 0))
    starts = graph.nodes.op_start[ops]
    return scale_delays(graph, weights, starts[weights.delay[starts] < LATE_NS], 0.0)


def mark_runs(chosen: Flags, thread: IntArray) -> Flags:
    """The chosen launches that stand with others in a row of TINY_RUN or more of one thread."""
    changes = (chosen[1:] != chosen[:-1]) | (thread[1:] != thread[:-1])
    run = np.cumsum(np.r_[False, changes][: len(chosen)])
    return np.asarray(chosen & (np.bincount(run)[run] >= TINY_RUN), np.bool_)


def pin_copies(ranks: Sequence[int] = ()) -> Apply:
    """Copies from and to pageable memory use pinned memory and do not block."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        ops, rows = graph.ops, find_staged_copies(graph, ranks)
        fast = np.rint(ops.bytes[rows] / PINNED_GB_PER_S).astype(np.int64) + 1_000
        weights = weights.with_work(rows, np.minimum(weights.work[rows], fast))
        calls = np.unique(ops.call[rows]).astype(np.int64)
        weights = unblock_calls(graph, weights, calls)
        starts = graph.nodes.op_start[rows[graph.has_source[graph.nodes.op_start[rows]]]]
        weights = weights.with_delay(starts, np.minimum(weights.delay[starts], STREAM_NS))
        edges = find_edges(graph, graph.nodes.call_end[calls], Edge.CALL)
        return weights.with_lag(edges, np.minimum(weights.lag[edges], PINNED_CALL_NS))

    return apply


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
