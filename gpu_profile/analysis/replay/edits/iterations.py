"""The changes of an inference engine's iterations."""

import re

import numpy as np

from gpu_profile.analysis.activity.activity import (
    COMMUNICATION,
    COMPUTE,
    COPY_TO_DEVICE,
    SYNC_NAME,
)
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES
from gpu_profile.analysis.activity.load.operations import COPY_NAMES
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import (
    Change,
    choose_calls,
    choose_ops,
    free_calls,
    match_names,
    shorten,
    unblock_calls,
)
from gpu_profile.analysis.replay.rank.rank_graph import NONE, Codes
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

_TO_DEVICE = re.compile(re.escape(COPY_NAMES[COPY_TO_DEVICE]))


def mark_launches(graph: RunGraph) -> Flags:
    """A mask of the calls that launch a kernel or a graph."""
    ops = graph.ops
    launches = np.zeros(len(graph.calls.start), bool)
    works = ((ops.kind == COMPUTE) | (ops.kind == COMMUNICATION)) & (ops.call != NONE)
    launches[ops.call[works]] = True
    return launches


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
    """Of the small copies to the GPU between two launches of kernels only the first is left."""
    ops = graph.ops
    rows, group = _group_small_copies(graph)
    rows = rows[~np.r_[True, group[1:] != group[:-1]][: len(rows)]]
    calls = _with_waits(graph, ops.call[rows])
    weights = free_calls(graph, unblock_calls(graph, weights, calls), calls)
    weights = weights.with_work(rows, 0 * rows)
    starts = graph.nodes.op_start[rows]
    return shorten(graph, weights, starts, weights.delay[starts])


@once_each
def _group_small_copies(graph: RunGraph) -> tuple[IntArray, IntArray]:
    """The small copies to the GPU, and how many launches of kernels came before each."""
    ops = graph.ops
    to_device = match_names(graph, _TO_DEVICE)[ops.name] & (ops.bytes < STAGED_BYTES)
    rows = np.flatnonzero(choose_ops(graph) & to_device & (ops.call != NONE))
    rows = rows[np.argsort(ops.call[rows], kind="stable")]
    launched = np.cumsum(mark_launches(graph), dtype=np.int64)
    return rows, launched[ops.call[rows]]


def find_copying_calls(graph: RunGraph) -> IntArray:
    """The calls of small copies to the GPU that come several between two launches of kernels, with
    the calls that wait for them.
    """
    rows, group = _group_small_copies(graph)
    _, place, counts = np.unique(group, return_inverse=True, return_counts=True)
    return _with_waits(graph, graph.ops.call[rows[counts[place] > 1]])


def _with_waits(graph: RunGraph, of_copies: Codes) -> IntArray:
    """The calls with those that wait for them right behind, as .to(device) has it."""
    calls = np.unique(of_copies).astype(np.int64)
    thread, last = graph.calls.thread, len(graph.calls.thread) - 1
    behind = np.minimum(calls + 1, last)
    waits = match_names(graph, SYNC_NAME)[graph.calls.name[behind]]
    return np.union1d(calls, behind[waits & (thread[behind] == thread[calls])])


FEW_COPIES = Change("small copies", _copy_at_once, ("many_small_copies",))
