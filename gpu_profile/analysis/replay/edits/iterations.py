"""The changes of an inference engine's iterations, and of small copies in rows."""

import numpy as np

from gpu_profile.analysis.activity.activity import (
    COPY_TO_DEVICE,
)
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import (
    Change,
    choose_calls,
    find_waits_after,
    free_calls,
    mark_launches,
    match_small_copies,
    shorten,
    unblock_calls,
)
from gpu_profile.analysis.replay.edits.loops.read_loops import find_turn_copies
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights


def _go_on_at_once(graph: RunGraph, weights: Weights) -> Weights:
    """The host does nothing between a call that waits and the next launch of a kernel or graph:
    another thread does it, or it was done while the GPU worked.
    """
    calls, launches = graph.calls, mark_launches(graph)
    waited = np.r_[0, np.cumsum(calls.waits)[:-1]]
    launched = np.r_[0, np.cumsum(launches)[:-1]]
    # How many launches there were when the last call that waits ended.
    before = np.maximum.accumulate(np.where(np.r_[False, calls.waits[:-1]], launched, 0))
    same = np.r_[False, calls.thread[1:] == calls.thread[:-1]]
    between = choose_calls(graph) & same & (waited > 0) & (launched == before)
    starts = graph.nodes.call_start[np.flatnonzero(between)]
    return shorten(graph, weights, starts, weights.delay[starts])


DECODE_GAP = Change("host work between iterations", _go_on_at_once, ("decode_gap",))


def _copy_at_once(graph: RunGraph, weights: Weights) -> Weights:
    """Of the small copies to the GPU between two launches of kernels, and of those in the turns of
    a loop, only the first is left.
    """
    ops = graph.ops
    rows, group = _group_small_copies(graph)
    in_turns = find_turn_copies(graph, rows)
    rows = np.union1d(rows[~np.r_[True, group[1:] != group[:-1]][: len(rows)]], in_turns)
    calls = find_waits_after(graph, ops.call[rows])
    weights = free_calls(graph, unblock_calls(graph, weights, calls), calls)
    weights = weights.with_work(rows, 0 * rows)
    starts = graph.nodes.op_start[rows]
    return shorten(graph, weights, starts, weights.delay[starts])


@once_each
def _group_small_copies(graph: RunGraph) -> tuple[IntArray, IntArray]:
    """The small copies to the GPU, and how many launches of kernels came before each."""
    ops = graph.ops
    rows = np.flatnonzero(match_small_copies(graph, COPY_TO_DEVICE))
    rows = rows[np.argsort(ops.call[rows], kind="stable")]
    launched = np.cumsum(mark_launches(graph), dtype=np.int64)
    return rows, launched[ops.call[rows]]


def find_copying_calls(graph: RunGraph) -> IntArray:
    """The calls of small copies to the GPU that come several between two launches of kernels, with
    the calls that wait for them.
    """
    rows, group = _group_small_copies(graph)
    _, place, counts = np.unique(group, return_inverse=True, return_counts=True)
    return find_waits_after(graph, graph.ops.call[rows[counts[place] > 1]])


FEW_COPIES = Change("small copies", _copy_at_once, ("many_small_copies",))
