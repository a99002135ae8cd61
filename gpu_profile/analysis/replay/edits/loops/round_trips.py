"""Values that a loop reads, works on in the host, and takes back to the GPU in each pass, such as
the lengths of sentences, of which each layer makes a mask anew.
"""

from collections import Counter

import numpy as np

from gpu_profile.analysis.activity.activity import COPY_TO_DEVICE, COPY_TO_HOST
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import (
    free_calls,
    mark_launches,
    match_small_copies,
)
from gpu_profile.analysis.replay.edits.loops.launch_rows import LEAST_ROW
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

MOST = 0.75
"""Where that part of what is launched between two trips or more is the same, they may be passes of
a loop over items, and the host may take the next one to the GPU there."""


def skip_round_trips(graph: RunGraph, weights: Weights) -> Weights:
    """The host does nothing between such a read and the copy back: what it makes there is made on
    the GPU, or once. Pauses stay, for a copy after them may be of something else, as a batch is.
    """
    return free_calls(graph, weights, find_round_trips(graph))


def describe_round_trips(graph: RunGraph) -> str:
    """Evidence of the host's work in round trips; "" without any."""
    calls = find_round_trips(graph)
    work = _measure_work(graph, calls) / graph.steps / 1e6
    if not work:
        return ""
    copies = np.count_nonzero(_mark_small_copies(graph, COPY_TO_DEVICE)[calls]) / graph.steps
    return (
        f"{copies:.0f} times a step the host reads a value, works on it, and copies the result "
        f"back to the GPU: the cost holds that work, {work:.2f} ms of a recorded step"
    )


@once_each
def find_round_trips(graph: RunGraph) -> IntArray:
    """The calls after a small copy to the host, up to the first small one to the GPU, between
    which the thread launches no kernel; of LEAST_ROW such trips a step or more.
    """
    calls = graph.calls
    reads = _mark_small_copies(graph, COPY_TO_HOST)
    writes = _mark_small_copies(graph, COPY_TO_DEVICE)
    marks = np.flatnonzero(reads | writes | mark_launches(graph))
    begin, end = marks[:-1], marks[1:]
    is_trip = reads[begin] & ~reads[end] & writes[end]
    is_trip &= calls.thread[begin] == calls.thread[end]
    is_trip &= calls.step[begin] == calls.step[end]
    begin, end = begin[is_trip], end[is_trip]
    if len(begin) < LEAST_ROW * graph.steps or _are_passes(graph, begin, end):
        return begin[:0]
    edges = np.zeros(len(calls.start) + 1, np.int64)
    edges[begin + 1] += 1
    edges[end + 1] -= 1
    return np.flatnonzero(np.cumsum(edges)[:-1] > 0)


def _are_passes(graph: RunGraph, begin: IntArray, end: IntArray) -> bool:
    """Whether mostly the same is launched between two trips."""
    names = np.full(len(graph.calls.start), NONE, np.int64)
    launched = graph.ops.call != NONE
    names[graph.ops.call[launched]] = graph.ops.name[launched]
    pairs = zip((end[:-1] + 1).tolist(), begin[1:].tolist(), strict=True)
    between = (names[first:last] for first, last in pairs)
    counts = Counter(row[row != NONE].tobytes() for row in between)
    return max(counts.values()) >= MOST * (len(begin) - 1)


def _mark_small_copies(graph: RunGraph, copy_kind: int) -> Flags:
    """A mask of the calls that copy a little in this direction."""
    marks = np.zeros(len(graph.calls.start), bool)
    marks[graph.ops.call[match_small_copies(graph, copy_kind)]] = True
    return marks


def _measure_work(graph: RunGraph, calls: IntArray) -> int:
    """The host's recorded work (ns) before these calls, without pauses."""
    delay = graph.delay[graph.nodes.call_start[calls]] - graph.calls.silent[calls]
    return int(np.maximum(delay, 0).sum())
