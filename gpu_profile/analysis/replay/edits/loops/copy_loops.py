"""Loops that take a value from the host in each pass: copy, launch, wait, and the same again.

The host has the values before the loop begins, so a batch can do what all passes do. Then copies,
launches and waits of the passes go together, with the host's work between them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, COPY, COPY_TO_DEVICE, COPY_TO_HOST, SET
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import (
    choose_ops,
    free_calls,
    match_copies,
    shorten,
    unblock_calls,
)
from gpu_profile.analysis.replay.edits.host_work import drop_copies
from gpu_profile.analysis.replay.edits.loops.fused_kernels import (
    fuse_kernels,
    mark_tiny,
    measure_shares,
)
from gpu_profile.analysis.replay.edits.loops.launch_rows import (
    LEAST_ROW,
    LaunchRows,
    find_launch_rows,
)
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights

MOST, ALIKE = 0.75, 2
"""That part of a loop's launches or more is in passes of its usual length: at most ALIKE times the
median, or as little. Passes of a network over sentences differ by a few launches; copies that stand
by chance between launches leave 3 here and 80 there."""
MOST_LONG = 0.1
"""Of a loop's launches, those of kernels that are not tiny: their work stays in a batch. Changes of
single images have one in 36, the layers of a ResNet-50 six in ten."""
LEAST_PASS = 2
"""Launches: a copy, and what works on the value. Copies alone are no loop of launches."""


@dataclass(frozen=True, eq=False)
class CopyLoops:
    """`rows`: all calls between the first and the last launch of each loop, in the order of time.
    `is_kept`: a mask of those of the one pass that is left. `passes`: the number of all passes.
    """

    rows: LaunchRows
    is_kept: Flags
    passes: int

    @property
    def removed_calls(self) -> IntArray:
        return self.rows.calls[~self.is_kept]


def run_copy_loops_once(graph: RunGraph, weights: Weights, is_batched: bool = True) -> Weights:
    """Of each loop one pass is left, which does the work of all: side by side where they leave
    multiprocessors idle, or one after the other if not `is_batched`.
    """
    loops = find_copy_loops(graph)
    gone = loops.removed_calls
    ops = np.flatnonzero(graph.live & np.isin(graph.ops.call, gone))
    copies = graph.ops.kind[ops] == COPY
    kernels = ops[~copies & mark_tiny(graph)[ops]]
    share = measure_shares(graph)[kernels] if is_batched else 1.0
    weights = fuse_kernels(graph, weights, kernels, share)
    weights = drop_copies(graph, weights, ops[copies])
    weights = free_calls(graph, unblock_calls(graph, weights, gone), gone)
    paused = np.union1d(loops.rows.list_short_pauses(graph, weights), _list_served(graph, loops))
    return shorten(graph, weights, graph.nodes.call_start[paused], weights.silent[paused])


def describe_copy_loops(graph: RunGraph) -> str:
    """Evidence of the loops whose passes are one; "" without any."""
    loops = find_copy_loops(graph)
    if not loops.passes:
        return ""
    ops = np.flatnonzero(graph.live & np.isin(graph.ops.call, loops.rows.calls))
    copies = np.count_nonzero(graph.ops.kind[ops] == COPY) / graph.steps
    launches = len(ops) / graph.steps - copies
    return (
        f"{loops.passes / graph.steps:.0f} passes a step of a loop that takes values from the host "
        f"in each pass, with {copies:.0f} copies and {launches:.0f} launches: the cost is that of "
        "one pass for all, without the other copies, launches and waits, and the host's work "
        "between them"
    )


def _list_served(graph: RunGraph, loops: CopyLoops) -> IntArray:
    """The calls of threads that serve a loop: another one launches most of it, and they pause until
    it asks them to copy.
    """
    calls, part = loops.rows.calls, loops.rows.part
    thread = graph.calls.thread[calls]
    counts = np.zeros((int(part.max(initial=-1)) + 1, len(graph.threads)), np.int64)
    np.add.at(counts, (part, thread), 1)
    return np.asarray(calls[counts.argmax(axis=1)[part] != thread], np.int64)


@once_each
def find_copy_loops(graph: RunGraph) -> CopyLoops:
    """The loops of kernels, nearly all tiny, and small copies, each pass of which begins with such
    a copy to the GPU. Threads that hand over to each other are one: XLA copies with its own.
    """
    ops, group = graph.ops, _group_threads(graph)[graph.calls.thread]
    small = choose_ops(graph) & (ops.kind == COPY) & (ops.bytes < STAGED_BYTES)
    small &= ~match_copies(graph, COPY_TO_HOST)
    works = choose_ops(graph) & np.isin(ops.kind, (COMPUTE, SET))
    rows = find_launch_rows(graph, works | small, group)
    takes, is_long = np.zeros((2, len(group) + 1), bool)  # the last cells are of NONE (-1)
    takes[ops.call[small & match_copies(graph, COPY_TO_DEVICE)]] = True
    is_long[ops.call[works & ~mark_tiny(graph)]] = True
    parts = np.split(rows.calls, np.flatnonzero(~rows.mark_later())[1:])
    loops = [loop for calls in parts if (loop := _find_loop(calls, takes[calls], is_long[calls]))]
    return _take_all_calls(graph, group, loops)


class _Loop(NamedTuple):
    """Calls that launch: the first and the last one of the loop, and of its longest pass."""

    first: int
    last: int
    kept_first: int
    kept_last: int
    passes: int


def _find_loop(calls: IntArray, takes: Flags, is_long: Flags) -> _Loop | None:
    """The loop in a row of calls that launch, each pass of which begins with those that take."""
    begins = np.flatnonzero(takes & ~np.r_[False, takes[:-1]][: len(takes)])
    if len(begins) < LEAST_ROW:
        return None
    lengths = np.diff(begins, append=len(calls))
    usual = float(np.median(lengths))
    lengths[-1] = min(lengths[-1], lengths[:-1].max())
    alike = (ALIKE * lengths >= usual) & (lengths <= ALIKE * usual)
    if usual < LEAST_PASS or lengths[alike].sum() < MOST * lengths.sum():
        return None
    end = int(begins[-1] + lengths[-1])
    if is_long[begins[0] : end].mean() > MOST_LONG:
        return None
    longest = int(np.argmax(lengths * alike))
    kept = int(begins[longest])
    places = [int(begins[0]), end - 1, kept, kept + int(lengths[longest]) - 1]
    first, last, kept_first, kept_last = calls[places].tolist()
    return _Loop(first, last, kept_first, kept_last, len(begins))


def _take_all_calls(graph: RunGraph, group: IntArray, loops: Sequence[_Loop]) -> CopyLoops:
    """The loops with the calls in them that launch nothing."""
    order = np.lexsort((graph.calls.start, group))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    spans = [np.arange(place[loop.first], place[loop.last] + 1) for loop in loops]
    kept = [
        (span >= place[loop.kept_first]) & (span <= place[loop.kept_last])
        for loop, span in zip(loops, spans, strict=True)
    ]
    part = np.repeat(np.arange(len(loops)), [len(span) for span in spans])
    calls = order[np.concatenate([np.empty(0, np.int64), *spans])]
    of_pass = np.concatenate([np.empty(0, bool), *kept])
    return CopyLoops(LaunchRows(calls, part), of_pass, sum(loop.passes for loop in loops))


def _group_threads(graph: RunGraph) -> IntArray:
    """For each thread the number of its group: threads that hand over to each other."""
    nodes, edges = graph.nodes, graph.edges
    thread = np.zeros(len(graph.time), np.int64)
    thread[nodes.call_start] = thread[nodes.call_end] = graph.calls.thread
    rows = np.flatnonzero(edges.kind == Edge.HANDOVER)
    pairs = np.unique(np.stack((thread[edges.source[rows]], thread[edges.target[rows]])), axis=1)
    group = np.arange(len(graph.threads))
    for source, target in pairs.T.tolist():
        group[group == group[target]] = group[source]
    return group
