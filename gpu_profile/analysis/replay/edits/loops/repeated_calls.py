"""Calls of a model that follow each other with the same launches, such as one with the words of a
guided image and one without: a batch of them is one call.
"""

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, SET
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import choose_ops, free_calls
from gpu_profile.analysis.replay.edits.loops.fused_kernels import fuse_kernels, measure_shares
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

FORWARD = "forward"
MOST_CALLS = 4
"""In a row. More may be the layers of a network, each a model of its own, which need each other."""
MOST = 0.9
"""That part of a call's launches or more is in its forward, and of the steps is such a call."""


def call_once(graph: RunGraph, weights: Weights) -> Weights:
    """The first call of each row does the work of all: the launches of the others take no time, and
    their kernels run beside its own where these leave multiprocessors idle.
    """
    calls = find_repeated_calls(graph)
    ops = np.flatnonzero(choose_ops(graph) & np.isin(graph.ops.call, calls))
    ops = ops[np.isin(graph.ops.kind[ops], (COMPUTE, SET))]
    weights = fuse_kernels(graph, weights, ops, measure_shares(graph)[ops])
    return free_calls(graph, weights, calls)


def describe_repeated_calls(graph: RunGraph) -> str:
    """Evidence of the calls that a batch makes at once; "" without any."""
    repeated = np.unique(graph.calls.step[find_repeated_calls(graph)])
    if not len(repeated):
        return ""
    count = 1 + _count_row(repeated)
    return (
        f"the model is called {count} times in a row with the same launches: the cost is that of "
        "one call for a batch. A CUDA graph of all calls would take every launch away"
    )


def _count_row(steps: IntArray) -> int:
    """The usual length of the rows of these steps."""
    begins = np.flatnonzero(np.r_[True, np.diff(steps) > 1])
    return int(np.median(np.diff(begins, append=len(steps))))


@once_each
def find_repeated_calls(graph: RunGraph) -> IntArray:
    """The calls of CUDA in forwards that repeat the one before them, where steps are forwards.

    Such a forward launches what the one before launched, and nothing was launched between; after
    the last one of a row something is, and all rows are of the same length.
    """
    if len(graph.ranks) > 1 or FORWARD not in graph.places:
        return np.empty(0, np.int64)
    steps = _list_launches(graph)
    shortest = min(steps, key=len)
    usual = _name(graph, shortest)
    if not len(usual) or not _is_forward(graph, shortest):
        return usual[:0]
    begins_alike = [np.array_equal(_name(graph, calls[: len(usual)]), usual) for calls in steps]
    ends = np.flatnonzero([len(calls) > len(usual) for calls in steps])
    lengths = np.unique(np.diff(ends))
    if np.mean(begins_alike) < MOST or len(lengths) != 1 or not 1 < lengths[0] <= MOST_CALLS:
        return usual[:0]
    later = [s for s in range(1, len(steps)) if s - 1 not in ends and begins_alike[s]]
    spans = [np.arange(steps[s][0], steps[s][len(usual) - 1] + 1) for s in later]
    return np.concatenate([usual[:0], *spans])


def _list_launches(graph: RunGraph) -> list[IntArray]:
    """The calls of each step that launch."""
    launches = np.unique(graph.ops.call[graph.ops.call != NONE]).astype(np.int64)
    step = graph.calls.step[launches]
    order = np.argsort(step, kind="stable")
    return np.split(launches[order], np.searchsorted(step[order], np.arange(1, graph.steps)))


def _name(graph: RunGraph, calls: IntArray) -> IntArray:
    """The names of what these calls launch."""
    launched = graph.ops.call != NONE
    names = np.zeros(len(graph.calls.start), np.int64)
    names[graph.ops.call[launched]] = graph.ops.name[launched]
    return names[calls]


def _is_forward(graph: RunGraph, calls: IntArray) -> bool:
    """Whether these calls are made in a forward."""
    of_forward = np.array([place == FORWARD for place in graph.places], bool)
    return bool(of_forward[graph.calls.place[calls]].mean() >= MOST)
