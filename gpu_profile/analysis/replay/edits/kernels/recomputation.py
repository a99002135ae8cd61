"""The change in which activations are kept, and no kernel of the forward pass runs again."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import (
    Apply,
    Change,
    choose_ops,
    free_calls,
    shorten,
    unblock_calls,
)
from gpu_profile.analysis.replay.edits.kernels.repeated_rows import PassLaunches, mark_repeated
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

HOOKS, MOST_HOOKS = 0.32, 0.4
"""Of the host's work for the rest of a checkpointed part, what PyTorch's hooks take: each tensor
that autograd saves or reads calls a function in Python. With `use_reentrant=False` it was 0.32 of a
LoRA of a Llama and 0.3 or more of a diffusion transformer. A checkpoint of `use_reentrant=True` has
no such hooks, and no recording tells which one it is."""
BACKWARD_CALLS = 2
"""Autograd's calls for each call of the forward pass, or less."""


@dataclass(frozen=True, eq=False)
class Repeats:
    """The operations that run `again` in a backward pass, and those that they repeat."""

    again: IntArray
    first: IntArray


def keep_activations(hooks: float) -> Apply:
    """What runs again takes no time on the GPU, nor do its calls, what the host does before each,
    and its waits; `hooks` is the part of the host's work for the rest that goes, too. Pauses stay.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        ops, nodes = find_repeats(graph).again, graph.nodes
        if not len(ops):
            return weights
        starts = nodes.op_start[ops]
        weights = shorten(graph, weights.with_work(ops, 0), starts, weights.delay[starts])
        calls = _find_hooked(graph)
        hooked = nodes.call_start[calls]
        work = np.maximum(weights.delay[hooked] - weights.silent[calls], 0)
        weights = shorten(graph, weights, hooked, np.rint(hooks * work).astype(np.int64))
        calls = _find_calls(graph, ops)
        return free_calls(graph, unblock_calls(graph, weights, calls), calls)

    return apply


@once_each
def find_repeats(graph: RunGraph) -> Repeats:
    """The rows of operations that the forward and the backward pass of a step both launch.

    Communication stays: sharded weights that a layer gathers again are needed by its gradients.
    """
    ops = graph.ops
    rows = np.flatnonzero(choose_ops(graph) & (ops.call != NONE) & (ops.kind != COMMUNICATION))
    step = graph.op_rank[rows].astype(np.int64) * graph.steps + ops.step[rows]
    order = np.lexsort((graph.calls.start[ops.call[rows]], step))
    rows, step = rows[order], step[order]
    thread, size = graph.calls.thread[ops.call[rows]], ops.grid[rows] + ops.bytes[rows]
    launches = PassLaunches(step, thread, ops.name[rows], size, ops.place[rows], graph.places)
    is_repeated = mark_repeated(launches)
    parts = (rows[is_repeated & (launches.is_backward == side)] for side in (True, False))
    return Repeats(*(np.sort(part) for part in parts))


def _find_calls(graph: RunGraph, ops: IntArray) -> IntArray:
    """The calls that launch these operations alone, and those between that launch nothing."""
    call, thread, number = graph.ops.call, graph.calls.thread, np.arange(len(graph.calls.start))
    launches = np.isin(number, call)
    goes = launches & ~np.isin(number, np.delete(call, ops))
    goes &= np.isin(number, call[ops])
    before = np.maximum.accumulate(np.where(launches, number, 0))
    after = np.minimum.accumulate(np.where(launches, number, len(number) - 1)[::-1])[::-1]
    is_inside = goes[before] & goes[after]
    return np.flatnonzero(is_inside & (thread[before] == thread) & (thread[after] == thread))


def _find_hooked(graph: RunGraph) -> IntArray:
    """The calls of the forward pass that run again, and BACKWARD_CALLS as many that autograd makes
    after each row of such calls, before the next one.
    """
    repeats, calls = find_repeats(graph), graph.calls
    again, number = _find_calls(graph, repeats.again), np.arange(len(calls.start))
    ends = np.asarray(again[np.diff(again, append=NONE) != 1], np.int64)
    if not len(ends):
        return ends
    length = np.diff(np.searchsorted(again, ends, "right"), prepend=0)
    row = np.searchsorted(ends, number) - 1
    end = ends[row]
    is_near = (row >= 0) & (number - end <= BACKWARD_CALLS * length[row])
    is_near &= (calls.thread == calls.thread[end]) & (calls.step == calls.step[end])
    first = np.unique(graph.ops.call[repeats.first]).astype(np.int64)
    return np.asarray(np.setdiff1d(np.union1d(np.flatnonzero(is_near), first), again), np.int64)


RECOMPUTATION = Change(
    "kernels that run again",
    keep_activations(HOOKS),
    ("recomputation",),
    is_trade=True,
    bounds=(keep_activations(0.0), keep_activations(MOST_HOOKS)),
)
