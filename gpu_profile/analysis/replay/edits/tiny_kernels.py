"""The change in which the tiny kernels of a loop are one kernel: fused, or batched."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE, SET
from gpu_profile.analysis.activity.idle.stalls import LONG_GAP_NS
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
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

TINY_NS, TINY_RUN = 5_000, 6
"""Loops over tensors launch six to hundreds of such kernels in a row. The layers of a model have
tiny kernels, too, but between others: ResNet-50 has 471 a step, 12 of them in such rows, BERT 200
and 8. What fuses the loop leaves the others."""
NARROW_NS = 20_000
"""A kernel of fewer blocks than the GPU has multiprocessors leaves the others idle. Up to this time
it is tiny, too, if its work on all of them takes less than TINY_NS: a sort of 4,096 numbers has
passes of one block and 6 us."""
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
    row alone takes EMPTY_NS to begin and end. Batched, the others take their part of the GPU.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        tiny = choose_ops(graph, ranks) & _mark_tiny(graph, is_batched)
        in_row, joined = _find_rows(graph, tiny)
        share = measure_shares(graph)[joined] if is_batched else 1.0
        weights = fuse_kernels(graph, weights, joined, share)
        weights = _spare_pauses(graph, weights, np.unique(graph.ops.call[joined]).astype(np.int64))
        return free_calls(graph, weights, in_row[~graph.calls.waits[in_row]])

    return apply


def _spare_pauses(graph: RunGraph, weights: Weights, calls: IntArray) -> Weights:
    """The host does not pause before these calls, behind others of their steps, for less than other
    work takes.
    """
    step = graph.calls.step
    calls = calls[(weights.silent[calls] < LONG_GAP_NS) & (step[calls] == step[calls - 1])]
    return shorten(graph, weights, graph.nodes.call_start[calls], weights.silent[calls])


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


def measure_shares(graph: RunGraph) -> NDArray[np.float64]:
    """The part of its GPU that each operation can use, by its blocks; 1 where that is unknown."""
    multiprocessors = np.array([rank.multiprocessors for rank in graph.ranks])[graph.op_rank]
    share = graph.ops.blocks / np.maximum(multiprocessors, 1)
    return np.where((share > 0) & (multiprocessors > 0), np.minimum(share, 1.0), 1.0)


def _find_rows(graph: RunGraph, tiny: Flags) -> tuple[IntArray, IntArray]:
    """(calls that launch only tiny kernels, in rows; the tiny kernels behind the first of each)."""
    call, count = graph.ops.call, len(graph.calls.start)
    launched = call != NONE
    only_tiny = np.zeros(count, bool)
    only_tiny[call[tiny & launched]] = True
    only_tiny[call[~tiny & launched]] = False
    launches = np.unique(call[launched]).astype(np.int64)
    runs = mark_runs(only_tiny[launches], graph.calls.thread[launches].astype(np.int64))
    later = np.zeros(count, bool)
    later[launches[1:][runs[1:] & runs[:-1]]] = True
    return launches[runs], np.flatnonzero(tiny & launched & later[call])


def mark_runs(chosen: Flags, thread: IntArray) -> Flags:
    """The chosen launches that stand with others in a row of TINY_RUN or more of one thread."""
    changes = (chosen[1:] != chosen[:-1]) | (thread[1:] != thread[:-1])
    run = np.cumsum(np.r_[False, changes][: len(chosen)], dtype=np.int32)
    return np.asarray(chosen & (np.bincount(run) >= TINY_RUN)[run], np.bool_)


def _describe_narrow_kernels(graph: RunGraph) -> str:
    """Evidence of the kernels that a batch runs side by side; "" without any."""
    joined = _find_rows(graph, choose_ops(graph) & _mark_tiny(graph, True))[1]
    narrow = joined[measure_shares(graph)[joined] < 1]
    if not len(narrow):
        return ""
    count = len(narrow) / graph.steps
    return (
        f"{count:.0f} kernels a step in rows have fewer blocks than the GPU has multiprocessors "
        f"({graph.ranks[0].multiprocessors}): the cost is that of a batch, in which they run side "
        "by side"
    )
