"""State that lives on the host in pageable memory, such as weights that a GPU fetches when it needs
them: copies to the GPU among the kernels of a step, copies of the same sizes back, and then work of
the host on what came back.
"""

from collections import Counter

import numpy as np

from gpu_profile.analysis.activity.activity import COPY_TO_HOST
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import (
    find_staged_copies,
    mark_launches,
    match_copies,
    shorten,
)
from gpu_profile.analysis.replay.edits.host_work import find_served_copies
from gpu_profile.analysis.replay.edits.moved_state import LEAST_COPIES, LEAST_PART
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights


def skip_state_work(graph: RunGraph, weights: Weights) -> Weights:
    """The host does not work on the state: on the GPU that takes little, and in pinned memory it
    meets no new pages. An optimizer on gradients that were just copied to new pageable memory took
    87 ms a step, on pinned ones 7 (H200).
    """
    calls = find_state_pauses(graph)
    return shorten(graph, weights, graph.nodes.call_start[calls], weights.silent[calls])


def describe_state_work(graph: RunGraph) -> str:
    """Evidence of the host's work on the state; "" without any."""
    if not len(find_state_pauses(graph)):
        return ""
    return (
        "what comes back is of the sizes that go to the GPU, and the host works on it between: the "
        "cost holds that work, which meets new pages of memory"
    )


@once_each
def find_state_pauses(graph: RunGraph) -> IntArray:
    """The calls after the host's pauses between copies of the state: the last copy before is one
    to the host, the next one is to the GPU, and no thread launches a kernel between both.
    """
    copies = find_staged_copies(graph)
    comes = match_copies(graph, COPY_TO_HOST)[copies]
    if not _returns(graph, copies[comes], copies[~comes]):
        return np.zeros(0, np.int64)
    order = np.lexsort((graph.calls.start, graph.call_rank))
    reads, writes = (_mark_calls(graph, copies[each])[order] for each in (comes, ~comes))
    place = np.arange(len(order))
    last = np.maximum.accumulate(np.where(reads | writes, place, NONE))
    before = np.r_[NONE, last[:-1]]
    ends = np.where(reads | writes, place, len(order))
    after = np.minimum.accumulate(ends[::-1])[::-1]
    both = (before != NONE) & (after < len(order))
    before, after = np.maximum(before, 0), np.minimum(after, len(order) - 1)
    launches, rank = np.cumsum(mark_launches(graph)[order]), graph.call_rank[order]
    both &= reads[before] & writes[after] & (rank[before] == rank[after])
    both &= launches[before] == launches[after]
    return np.asarray(order[both & (graph.calls.silent[order] > 0)], np.int64)


def _returns(graph: RunGraph, back: IntArray, there: IntArray) -> bool:
    """Whether the copies back are LEAST_COPIES a step or more, and of the sizes of those there.

    Those that serve work of the host with no kernel between belong to its pauses.
    """
    back = np.setdiff1d(back, find_served_copies(graph))
    if len(back) < LEAST_COPIES * graph.steps:
        return False
    sizes, others = (Counter(graph.ops.bytes[each].tolist()) for each in (back, there))
    same = sum(size * count for size, count in (sizes & others).items())
    return bool(same >= LEAST_PART * int(graph.ops.bytes[back].sum()))


def _mark_calls(graph: RunGraph, ops: IntArray) -> Flags:
    """A mask of the calls that issue these operations."""
    marks = np.zeros(len(graph.calls.start), bool)
    marks[graph.ops.call[ops]] = True
    return marks
