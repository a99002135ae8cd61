"""State that a program takes to the GPU and back in each step, such as a model that waits on the
host: a row of copies of pageable memory there, and after some kernels a row back.
"""

from collections import Counter
from itertools import pairwise

import numpy as np

from gpu_profile.analysis.activity.activity import COPY, COPY_TO_DEVICE, SYNC_NAME
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import (
    choose_ops,
    find_staged_copies,
    find_waits_after,
    match_copies,
    match_names,
    shorten,
)
from gpu_profile.analysis.replay.edits.host_work import drop_copies, number_stretches
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

LEAST_COPIES = 6
"""Of a row, as of tiny kernels in one: a batch is a few tensors, a model hundreds."""
LEAST_PART = 0.9
"""Of a row's bytes, what the other row holds in copies of the same sizes: beside a model's
parameters a batch or a loss may be copied."""
FREED_GB_PER_S = 4.0
"""The least at which the kernel takes memory back: 59 MB in 7.3 to 11.4 ms (H200's host)."""


def keep_batch_memory(graph: RunGraph, weights: Weights) -> Weights:
    """The host frees no batch after its copy: pinned memory is kept for the next one.

    A pause after a copy, and after the wait for it, is of the memory that was copied, unless it
    is longer than that takes.
    """
    ops, calls, copies = graph.ops, graph.calls, find_staged_copies(graph)
    copies = copies[match_copies(graph, COPY_TO_DEVICE)[copies]]
    waits = np.append(match_names(graph, SYNC_NAME)[calls.name], False)
    thread = np.append(calls.thread, NONE)
    later = ops.call[copies].astype(np.int64) + 1
    later += waits[later] & (thread[later] == thread[later - 1])
    is_next = thread[later] == thread[ops.call[copies]]
    copies, later = copies[is_next], later[is_next]
    later = later[calls.silent[later] <= ops.bytes[copies] / FREED_GB_PER_S]
    return shorten(graph, weights, graph.nodes.call_start[later], weights.silent[later])


def leave_state(graph: RunGraph, weights: Weights) -> Weights:
    """State that is moved stays on the GPU: its copies and their calls take no time, and the host
    does not pause between them, where it allocates and frees what they copy from and to.
    """
    copies = find_moved_state(graph)
    calls = find_waits_after(graph, graph.ops.call[copies])
    stretch = number_stretches(graph)[calls]
    later = calls[1:][stretch[1:] == stretch[:-1]]
    pauses = weights.silent[later]
    weights = shorten(graph, weights, graph.nodes.call_start[later], pauses)
    return drop_copies(graph, weights, copies)


def describe_moved_state(graph: RunGraph) -> str:
    """Evidence of the copies that take state to the GPU and back; "" without any."""
    ops = find_moved_state(graph)
    if not len(ops):
        return ""
    count, size = len(ops) / graph.steps, graph.ops.bytes[ops].sum() / graph.steps
    return (
        f"{count:.0f} copies a step, {size / 1e6:.2f} MB, take the same tensors to the GPU and "
        "back: the cost is that of leaving them there"
    )


@once_each
def find_moved_state(graph: RunGraph) -> IntArray:
    """The copies of pageable memory in rows that bring state to the GPU, and in those that take it
    back: the next row of as many bytes in the other direction, with launches between them.

    A row with copies of both directions is work of the host on what comes from the GPU.
    """
    goes_there = match_copies(graph, COPY_TO_DEVICE)
    moved = [
        np.concatenate((row, back))
        for row, back in pairwise(_list_rows(graph))
        if goes_there[row].all() and not goes_there[back].any() and _holds_same(graph, row, back)
    ]
    return np.concatenate(moved) if moved else np.zeros(0, np.int64)


def _list_rows(graph: RunGraph) -> list[IntArray]:
    """The operations of each row of copies between two launches, in the order of their calls."""
    ops = graph.ops
    chosen = choose_ops(graph) & (ops.kind == COPY) & ops.pageable & (ops.call != NONE)
    copies = np.flatnonzero(chosen)
    copies = copies[np.argsort(ops.call[copies], kind="stable")]
    stretch = number_stretches(graph)[ops.call[copies]]
    rows = np.split(copies, np.flatnonzero(np.diff(stretch)) + 1)
    return [row for row in rows if len(row) >= LEAST_COPIES]


def _holds_same(graph: RunGraph, row: IntArray, back: IntArray) -> bool:
    """Whether copies of the same sizes are most of both rows, and not only a few values."""
    there, here = (Counter(graph.ops.bytes[each].tolist()) for each in (row, back))
    same = sum(size * count for size, count in (there & here).items())
    most = max(int(graph.ops.bytes[each].sum()) for each in (row, back))
    return bool(same >= max(LEAST_PART * most, LEAST_COPIES * STAGED_BYTES))
