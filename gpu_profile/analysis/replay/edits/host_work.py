"""The change without the host's pauses, and without the copies that serve the work in them."""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COPY, COPY_TO_HOST
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import (
    choose_ops,
    find_waits_behind,
    free_calls,
    mark_launches,
    match_copies,
    shorten,
    unblock_calls,
)
from gpu_profile.analysis.replay.edits.calls import remove_pauses
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights


def remove_host_work(graph: RunGraph, weights: Weights) -> Weights:
    """The host never pauses, and what was copied for its work in a pause is not copied."""
    return drop_copies(graph, remove_pauses()(graph, weights), find_served_copies(graph))


def drop_copies(graph: RunGraph, weights: Weights, copies: IntArray) -> Weights:
    """The GPU spares the copies and the time before each, the host their calls and the waits behind
    them.
    """
    weights = weights.with_work(copies, 0)
    starts = graph.nodes.op_start[copies]
    weights = shorten(graph, weights, starts, weights.delay[starts])
    calls = find_waits_behind(graph, graph.ops.call[copies])
    return free_calls(graph, unblock_calls(graph, weights, calls), calls)


def describe_served_copies(graph: RunGraph) -> str:
    """Evidence of the copies that go with the pauses; "" without any."""
    copies = find_served_copies(graph)
    if not len(copies):
        return ""
    count, size = len(copies) / graph.steps, graph.ops.bytes[copies].sum() / graph.steps
    return (
        f"{count:.1f} copies a step of pageable memory, {size / 1e6:.2f} MB, serve that work: the "
        "cost holds them, for on the GPU the work needs none"
    )


@once_each
def find_served_copies(graph: RunGraph) -> IntArray:
    """The copies of pageable memory for work that the host does in pauses: what comes from the GPU
    before a pause that no launch of a kernel precedes, and what goes back in as many bytes.

    A small one may be read for something else, such as a loss that is printed, if nothing goes
    back. A batch that follows has another size than what came.
    """
    ops, stretch = graph.ops, number_stretches(graph)
    rows = np.flatnonzero(choose_ops(graph) & (ops.kind == COPY) & ops.pageable)
    rows = rows[ops.call[rows] != NONE]
    call, size = ops.call[rows].astype(np.int64), ops.bytes[rows]
    reads = match_copies(graph, COPY_TO_HOST)[rows]
    served = reads & (size >= STAGED_BYTES) & (_find_last_pauses(graph, stretch)[call] >= call)
    works = np.zeros(len(graph.calls.start) + 1, bool)
    works[stretch[call[served]]] = True
    goes_back = _match_sizes(stretch[call], size, call, reads) & works[stretch[call]]
    return np.asarray(rows[served | goes_back], np.int64)


def number_stretches(graph: RunGraph) -> IntArray:
    """For each call the number of its stretch: from one launch of a kernel to the next one of the
    thread.
    """
    thread = graph.calls.thread
    first = np.r_[True, thread[1:] != thread[:-1]][: len(thread)]
    return np.asarray(np.cumsum(mark_launches(graph) | first) - 1, np.int64)


def _find_last_pauses(graph: RunGraph, stretch: IntArray) -> IntArray:
    """For each call the last one of its stretch behind which the host pauses; NONE without one."""
    last = np.full(len(stretch), NONE)
    before = np.flatnonzero(graph.calls.silent > 0) - 1
    before = before[before >= 0]
    last[stretch[before]] = before  # the calls rise, and the last one counts
    return last[stretch]


def _match_sizes(stretch: IntArray, size: IntArray, call: IntArray, reads: Flags) -> Flags:
    """A mask of the copies that come and go back in one stretch with the same number of bytes."""
    pairs: NDArray[np.int64] = np.stack((stretch, size), axis=1)
    key = np.unique(pairs, axis=0, return_inverse=True)[1].ravel()
    first, last = np.full(len(key), np.iinfo(np.int64).max), np.full(len(key), NONE)
    np.minimum.at(first, key[reads], call[reads])
    np.maximum.at(last, key[~reads], call[~reads])
    return np.asarray(np.where(reads, call < last[key], call > first[key]), np.bool_)
