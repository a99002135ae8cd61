"""The change in which the tiny kernels of a loop are one kernel: fused, or batched."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE, SET
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import (
    Apply,
    Change,
    choose_ops,
    free_calls,
    scale_delays,
    shorten,
)
from gpu_profile.analysis.replay.edits.calls import LATE_NS
from gpu_profile.analysis.replay.edits.launch_rows import find_launch_rows
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights
from gpu_profile.analysis.tables.kernel_class import classify_kernel

TINY_NS = 5_000
NARROW_NS = 20_000
"""A kernel of few threads leaves a part of the GPU idle. Up to this time it is tiny, too, if its
work on all of it takes less than TINY_NS: a sort of 4,096 numbers has passes of one block and 6 us.
"""
FULL_THREADS = 1_024
"""Of a multiprocessor: half of what it holds at once. From there on more do not make most kernels
faster. Fewer leave it waiting for memory: 1,000 kernels of 256 blocks of 128 threads and 3.4 us
became one of 1.2 ms (H200)."""
EMPTY_NS = 700
"""A kernel takes as long whatever it does: the shortest ones of 50 programs take 0.67 to 0.99 us
(H100, H200)."""


def join_tiny_kernels(ranks: Sequence[int] = ()) -> Change:
    """The kernels of a row are one that fills the GPU, as a batch of the loop's passes does. At the
    least they are fused, and each takes the multiprocessors that it takes now: passes that need
    each other cannot run side by side.
    """
    batched = _join_rows(ranks, is_batched=True)
    return Change(
        "launches of tiny kernels",
        batched,
        ("tiny_kernels",),
        is_bound=True,
        describe=_describe_narrow_kernels,
        bounds=(_join_rows(ranks, is_batched=False), batched),
    )


def _join_rows(ranks: Sequence[int], is_batched: bool) -> Apply:
    """Small kernels and fills of memory in a row: their launches take no time, and the first of a
    row alone takes EMPTY_NS to begin and end. Batched, the others take their part of the GPU, and
    a loop of passes keeps one launch of each kernel.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        tiny = choose_ops(graph, ranks) & _mark_tiny(graph, is_batched)
        rows = find_launch_rows(graph, tiny)
        gone = ~rows.mark_batches(graph) if is_batched else np.ones(len(rows.calls), bool)
        joined = _list_launched(graph, tiny, rows.calls[rows.mark_later() & gone])
        share = measure_shares(graph)[joined] if is_batched else 1.0
        weights = fuse_kernels(graph, weights, joined, share)
        paused = rows.list_short_pauses(graph, weights)
        weights = shorten(graph, weights, graph.nodes.call_start[paused], weights.silent[paused])
        return free_calls(graph, weights, rows.calls[gone & ~graph.calls.waits[rows.calls]])

    return apply


@once_each
def launches_loops(graph: RunGraph) -> bool:
    """Whether most tiny kernels in rows are of loops, which a program can batch."""
    return find_launch_rows(graph, choose_ops(graph) & _mark_tiny(graph, True)).are_loops(graph)


def _list_launched(graph: RunGraph, chosen: Flags, calls: IntArray) -> IntArray:
    """The chosen operations that these calls launch."""
    launches = np.zeros(len(graph.calls.start) + 1, bool)  # the last cell is of NONE (-1)
    launches[calls] = True
    return np.flatnonzero(chosen & launches[graph.ops.call])


def fuse_kernels(
    graph: RunGraph, weights: Weights, ops: IntArray, share: NDArray[np.float64] | float = 1.0
) -> Weights:
    """These kernels are a part of the ones before them, and take their `share` of the GPU."""
    work = np.maximum(weights.work[ops] - EMPTY_NS, 0) * share
    weights = weights.with_work(ops, np.rint(work).astype(np.int64))
    starts = graph.nodes.op_start[ops]
    return scale_delays(graph, weights, starts[weights.delay[starts] < LATE_NS], 0.0)


def _mark_tiny(graph: RunGraph, is_batched: bool) -> Flags:
    ops = graph.ops
    duration = ops.end - ops.start
    tiny = duration < TINY_NS
    if is_batched:
        tiny |= (duration < NARROW_NS) & (duration * measure_shares(graph) < TINY_NS)
    return np.asarray(tiny & ((ops.kind == COMPUTE) | (ops.kind == SET)), np.bool_)


@once_each
def measure_shares(graph: RunGraph) -> NDArray[np.float64]:
    """The part of its GPU that each operation can use, by its blocks and their threads; 1 where its
    blocks are unknown.
    """
    multiprocessors = np.array([rank.multiprocessors for rank in graph.ranks])[graph.op_rank]
    share = graph.ops.blocks / np.maximum(multiprocessors * _count_neighbours(graph), 1)
    return np.where((share > 0) & (multiprocessors > 0), np.minimum(share, 1.0), 1.0)


def _count_neighbours(graph: RunGraph) -> NDArray[np.float64]:
    """How many of an operation's blocks fill a multiprocessor. A block that multiplies matrices
    keeps its tensor cores busy, and one of unknown size may fill it.
    """
    ops = graph.ops
    multiplies = np.array([classify_kernel(name) == "GEMM" for name in graph.names], bool)[ops.name]
    fits = FULL_THREADS / np.maximum(ops.threads, 1)
    return np.where(multiplies | (ops.threads == 0), 1.0, np.maximum(fits, 1.0))


def _describe_narrow_kernels(graph: RunGraph) -> str:
    """Evidence of the kernels that a batch runs side by side; "" without any."""
    tiny = choose_ops(graph) & _mark_tiny(graph, True)
    rows = find_launch_rows(graph, tiny)
    joined = _list_launched(graph, tiny, rows.calls[rows.mark_later()])
    narrow = joined[measure_shares(graph)[joined] < 1]
    if not len(narrow):
        return ""
    count = len(narrow) / graph.steps
    return (
        f"{count:.0f} kernels a step in rows have too few threads for the GPU's "
        f"{graph.ranks[0].multiprocessors} multiprocessors: the cost is that of a batch, in which "
        f"they run side by side. At the least, those under {TINY_NS / 1e3:.0f} us are one kernel "
        "that does them one after the other, as passes that need each other have to"
    )
