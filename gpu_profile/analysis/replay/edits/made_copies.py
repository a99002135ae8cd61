"""Copies of pageable memory to the GPU that bring what the host made in a pause before them, such
as the edges that it draws for each step. Where the work is done on the GPU, nothing is copied.
"""

import numpy as np

from gpu_profile.analysis.activity.activity import COPY_TO_DEVICE
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import (
    LEAST_SHARE,
    find_staged_copies,
    find_waits_after,
    match_copies,
)
from gpu_profile.analysis.replay.edits.host_work import (
    drop_copies,
    find_places,
    find_told_pauses,
    number_stretches,
    sum_calls,
    sum_pauses,
)
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.step_times import measure_steps
from gpu_profile.analysis.replay.weights import Weights

MOST = 0.75
"""That part of the copies at a place of the step or more follow a pause. What a program copies
without one, too, is not made in it, as a batch after a metric in each fifth step."""


def drop_made_copies(graph: RunGraph, weights: Weights) -> Weights:
    """What the host makes in a pause is not copied to the GPU."""
    return drop_copies(graph, weights, find_made_copies(graph))


def describe_made_copies(graph: RunGraph) -> str:
    """Evidence of the copies of what pauses make; "" without any."""
    copies = find_made_copies(graph)
    if not len(copies):
        return ""
    count, size = len(copies) / graph.steps, graph.ops.bytes[copies].sum() / graph.steps
    return (
        f"{count:.1f} copies a step of pageable memory, {size / 1e6:.2f} MB, bring what that work "
        "makes to the GPU: the cost holds them, for on the GPU the work needs none"
    )


@once_each
def find_made_copies(graph: RunGraph) -> IntArray:
    """The copies before the next launch of a kernel, after a pause in which the host works on
    nothing that came from the GPU.

    With the waits beside them they hold the host for as long as is told of a cause, and alone for
    less than it pauses: a loader that is fast pauses for a little before copies that are the cost
    by themselves.
    """
    copies = find_staged_copies(graph)
    stretch, goes_there = number_stretches(graph), match_copies(graph, COPY_TO_DEVICE)[copies]
    call = graph.ops.call[copies].astype(np.int64)
    reads = np.zeros(int(stretch.max(initial=0)) + 1, bool)
    reads[stretch[call[~goes_there]]] = True
    copies, call = copies[goes_there], call[goes_there]
    is_made = _mark_after_pauses(graph, stretch, call) & ~reads[stretch[call]]
    is_made &= _mark_usual(graph, stretch[call], is_made)
    return copies[is_made & _mark_ranks(graph, stretch, copies, is_made)]


def _mark_after_pauses(graph: RunGraph, stretch: IntArray, call: IntArray) -> Flags:
    """A mask of these calls: their thread has paused since it last launched a kernel."""
    last = np.full(len(stretch), NONE)
    pauses = find_told_pauses(graph)
    last[pauses] = pauses  # the calls rise, and the last one counts
    paused = np.maximum.accumulate(last)[call]
    return np.asarray((paused != NONE) & (stretch[paused] == stretch[call]), np.bool_)


def _mark_usual(graph: RunGraph, stretch: IntArray, chosen: Flags) -> Flags:
    """A mask of the copies at places where MOST of them are chosen, by the stretch of each."""
    place = np.unique(find_places(graph, stretch), axis=0, return_inverse=True)[1].ravel()
    part = np.bincount(place, chosen) / np.maximum(np.bincount(place), 1)
    return np.asarray((part >= MOST)[place], np.bool_)


def _mark_ranks(graph: RunGraph, stretch: IntArray, copies: IntArray, chosen: Flags) -> Flags:
    """A mask of the copies of ranks where the chosen ones, and what waits beside them, hold the
    host for as long as is told of a cause, and they alone for less than it pauses.
    """
    made = np.unique(graph.ops.call[copies[chosen]]).astype(np.int64)
    copied = sum_calls(graph, made)
    held = sum_calls(graph, _list_beside(graph, stretch, made))
    pauses = find_told_pauses(graph)
    pauses = pauses[np.isin(stretch[pauses], stretch[made])]
    worked = sum_pauses(graph, pauses)
    least = LEAST_SHARE * graph.steps * measure_steps(graph, graph.time)
    return np.asarray(((least <= held) & (copied < worked))[graph.op_rank[copies]], np.bool_)


def _list_beside(graph: RunGraph, stretch: IntArray, made: IntArray) -> IntArray:
    """The calls that copy to the GPU beside these, with the waits for each: the first one of a
    stretch waits for the GPU, and it may be small.
    """
    calls = graph.ops.call[match_copies(graph, COPY_TO_DEVICE)]
    calls = calls[calls != NONE]
    return find_waits_after(graph, calls[np.isin(stretch[calls], stretch[made])])
