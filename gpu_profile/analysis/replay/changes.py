"""Changes of a program, as changes of the graph's times: each takes a cause away.

Nodes without edges (roots) never change: they began as recorded. Texts are nouns for a plan:
"host pauses 57.1 -> 47.0 ms".
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import (
    ALLOCATION_NAME,
    COMMUNICATION,
    COMPUTE,
    COPY,
    SYNC_NAME,
)
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights

GRAPH_GAP_NS = 500
"""Between two kernels of a replayed CUDA graph on an H200."""
LATE_NS = 20_000
"""A longer wait before an operation is for something else than the launch."""
TINY_NS, TINY_RUN = 5_000, 6
"""Loops over tensors launch six to hundreds of such kernels in a row. The layers of a model have
tiny kernels, too, but between others: ResNet-50 has 471 a step, 11 of them in rows of 4 to 7, BERT
200 and 12. What fuses the loop leaves those."""
PINNED_GB_PER_S, PINNED_CALL_NS = 50.0, 10_000
"""Of a copy over PCIe 5 from pinned memory, and of the call that queues it."""
LEAST_COPY = 64 * 1024

Apply = Callable[[RunGraph, Weights], Weights]


@dataclass(frozen=True)
class Change:
    """`text`: what is taken away, a noun. `kinds`: the kinds of findings that say the same;
    `rank`: of which rank only, None for all.
    """

    text: str
    apply: Apply
    kinds: tuple[str, ...] = ()
    rank: int | None = None
    is_bound: bool = False
    """It takes away more than a fix of the program can (every launch, or every transfer), or the
    fix changes what the program computes.
    """
    frees_communication: bool = False
    """Communication that is shorter slows what is on the critical path less."""
    core: Apply | None = None
    """The part that the critical path must hold, where the rest gains nothing of the cause."""
    bounds: tuple[Apply, Apply] | None = None
    """The change at its least and at its most, where `apply` estimates how much it changes."""


def match_names(graph: RunGraph, pattern: re.Pattern[str]) -> Flags:
    """A mask over graph.names of those that contain the pattern."""
    return np.array([bool(pattern.search(name)) for name in graph.names], bool)


def choose_calls(graph: RunGraph, ranks: Sequence[int] = ()) -> Flags:
    """A mask of the calls of these ranks, by number in the run; of all without."""
    return _choose_ranks(graph, graph.call_rank, ranks)


def choose_ops(graph: RunGraph, ranks: Sequence[int] = ()) -> Flags:
    """A mask of the operations of these ranks that were launched in the window."""
    return _choose_ranks(graph, graph.op_rank, ranks) & graph.live


def _choose_ranks(graph: RunGraph, of_row: IntArray, ranks: Sequence[int]) -> Flags:
    chosen = [not ranks or entry.rank in ranks for entry in graph.ranks]
    return np.asarray(np.array(chosen)[of_row], np.bool_)


def shorten(graph: RunGraph, weights: Weights, nodes: IntArray, by: IntArray | int) -> Weights:
    """Take time (ns) off the delays of nodes, down to 0; roots stay."""
    moves = graph.has_source[nodes]
    nodes, amount = nodes[moves], np.broadcast_to(by, nodes.shape)[moves]
    return weights.with_delay(nodes, np.maximum(weights.delay[nodes] - amount, 0))


def scale_delays(
    graph: RunGraph, weights: Weights, nodes: IntArray, factor: NDArray[np.float64] | float
) -> Weights:
    """Multiply the delays of nodes; roots stay."""
    moves = graph.has_source[nodes]
    nodes, by = nodes[moves], np.broadcast_to(factor, nodes.shape)[moves]
    return weights.with_delay(nodes, np.rint(weights.delay[nodes] * by).astype(np.int64))


def find_edges(graph: RunGraph, nodes: IntArray, *kinds: Edge) -> IntArray:
    """The edges of these kinds into these nodes."""
    is_target = np.zeros(len(graph.time), bool)
    is_target[nodes] = True
    return np.flatnonzero(is_target[graph.edges.target] & np.isin(graph.edges.kind, kinds))


def remove_pauses(ranks: Sequence[int] = ()) -> Apply:
    """The host never pauses: no data loading, logging, checkpoint or garbage collection."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        rows = np.flatnonzero(choose_calls(graph, ranks) & (weights.silent > 0))
        return shorten(graph, weights, graph.nodes.call_start[rows], weights.silent[rows])

    return apply


def free_calls(graph: RunGraph, weights: Weights, calls: IntArray) -> Weights:
    """These calls, and the host's work before them, take no time; pauses stay."""
    nodes = graph.nodes
    starts = nodes.call_start[calls]
    work = np.maximum(weights.delay[starts] - weights.silent[calls], 0)
    weights = shorten(graph, weights, starts, work)
    weights = weights.with_lag(find_edges(graph, nodes.call_end[calls], Edge.CALL), 0)
    return scale_delays(graph, weights, nodes.call_end[calls], 0.0)


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
    """Kernels shorter than TINY_NS that are launched in a row are fused: their launches take no
    time.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        ops = graph.ops
        tiny = choose_ops(graph, ranks) & (ops.kind == COMPUTE) & (ops.call != NONE)
        tiny &= ops.end - ops.start < TINY_NS
        only_tiny = np.zeros(len(graph.calls.start), bool)
        only_tiny[ops.call[tiny]] = True
        only_tiny[ops.call[~tiny & (ops.call != NONE)]] = False
        launches = np.unique(ops.call[ops.call != NONE]).astype(np.int64)
        in_row = launches[
            _mark_runs(only_tiny[launches], graph.calls.thread[launches].astype(np.int64))
        ]
        return free_calls(graph, weights, in_row[~graph.calls.waits[in_row]])

    return apply


def _mark_runs(chosen: Flags, thread: IntArray) -> Flags:
    """The chosen launches that stand with others in a row of TINY_RUN or more of one thread."""
    changes = (chosen[1:] != chosen[:-1]) | (thread[1:] != thread[:-1])
    run = np.cumsum(np.r_[False, changes][: len(chosen)])
    return np.asarray(chosen & (np.bincount(run)[run] >= TINY_RUN), np.bool_)


def unblock_calls(graph: RunGraph, weights: Weights, calls: IntArray) -> Weights:
    """These calls return without waiting for the GPU."""
    ends = graph.nodes.call_end[calls]
    weights = weights.without_edges(find_edges(graph, ends, Edge.RETURN, Edge.STAGED))
    return scale_delays(graph, weights, ends, 0.0)


def remove_waits(ranks: Sequence[int] = (), pattern: str = "") -> Apply:
    """Calls that wait for the GPU return at once: all, or those with a name like the pattern. Large
    copies of pageable memory still wait: that is pin_copies().
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        waits = match_names(graph, SYNC_NAME)[graph.calls.name] | graph.calls.waits
        chosen = choose_calls(graph, ranks) & waits
        chosen[graph.ops.call[_find_pageable_copies(graph, ranks)]] = False
        if pattern:
            chosen &= match_names(graph, re.compile(pattern))[graph.calls.name]
        return unblock_calls(graph, weights, np.flatnonzero(chosen))

    return apply


def _find_pageable_copies(graph: RunGraph, ranks: Sequence[int]) -> IntArray:
    """The operations that copy LEAST_COPY or more from or to pageable memory, by a call."""
    ops = graph.ops
    chosen = choose_ops(graph, ranks) & (ops.kind == COPY) & ops.pageable & (ops.call != NONE)
    return np.flatnonzero(chosen & (ops.bytes >= LEAST_COPY))


def pin_copies(ranks: Sequence[int] = ()) -> Apply:
    """Copies from and to pageable memory use pinned memory and do not block."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        ops, rows = graph.ops, _find_pageable_copies(graph, ranks)
        fast = np.rint(ops.bytes[rows] / PINNED_GB_PER_S).astype(np.int64) + 1_000
        weights = weights.with_work(rows, np.minimum(weights.work[rows], fast))
        calls = np.unique(ops.call[rows]).astype(np.int64)
        weights = unblock_calls(graph, weights, calls)
        edges = find_edges(graph, graph.nodes.call_end[calls], Edge.CALL)
        return weights.with_lag(edges, np.minimum(weights.lag[edges], PINNED_CALL_NS))

    return apply


def remove_allocations(ranks: Sequence[int] = ()) -> Apply:
    """cudaMalloc, cudaFree and their like take no time and wait for nothing."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        allocates = match_names(graph, ALLOCATION_NAME)[graph.calls.name]
        calls = np.flatnonzero(choose_calls(graph, ranks) & allocates)
        weights = unblock_calls(graph, weights, calls)
        weights = weights.with_lag(find_edges(graph, graph.nodes.call_end[calls], Edge.CALL), 0)
        # Between two of these calls the allocator searches its blocks, for a cache that is gone.
        follows = allocates[graph.calls.name[calls - 1]] & (np.diff(calls, prepend=-1) == 1)
        return scale_delays(graph, weights, graph.nodes.call_start[calls[follows]], 0.0)

    return apply


def scale_communication(factor: float, ranks: Sequence[int] = ()) -> Apply:
    """Collectives and messages move their data in `factor` of the time; waits stay."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        rows = np.flatnonzero(choose_ops(graph, ranks) & (graph.ops.kind == COMMUNICATION))
        met = rows[graph.meets[rows]]
        weights = scale_delays(graph, weights, graph.nodes.op_end[met], factor)
        lone = rows[~graph.meets[rows]]
        return weights.with_work(lone, np.rint(weights.work[lone] * factor).astype(np.int64))

    return apply


def scale_kernels(pattern: str, factor: float, ranks: Sequence[int] = ()) -> Apply:
    """Compute kernels with a name like the pattern take `factor` of their time."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        matches = match_names(graph, re.compile(pattern, re.IGNORECASE))[graph.ops.name]
        chosen = choose_ops(graph, ranks) & (graph.ops.kind == COMPUTE)
        rows = np.flatnonzero(chosen & matches)
        return weights.with_work(rows, np.rint(weights.work[rows] * factor).astype(np.int64))

    return apply


def balance_compute() -> Apply:
    """Every rank computes as long as the mean of all ranks: stages or experts of equal work.

    First each kernel that all ranks have, by its name: where one rank's experts have more tokens,
    its attention has not.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        rows = np.flatnonzero(choose_ops(graph) & (graph.ops.kind != COMMUNICATION))
        rank, name, work = graph.op_rank[rows], graph.ops.name[rows], weights.work[rows]
        sums = np.zeros((len(graph.ranks), len(graph.names)))
        np.add.at(sums, (rank, name), work)
        by_name = np.ones(sums.shape)
        common = (sums > 0).all(axis=0)
        by_name[:, common] = sums[:, common].mean(axis=0) / sums[:, common]
        rest = sums.sum(axis=1).mean() / np.maximum((by_name * sums).sum(axis=1), 1)
        factor = by_name[rank, name] * rest[rank]
        return weights.with_work(rows, np.rint(work * factor).astype(np.int64))

    return apply


def combine(changes: Sequence[Apply]) -> Apply:
    """All changes, one after the other."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        for change in changes:
            weights = change(graph, weights)
        return weights

    return apply
