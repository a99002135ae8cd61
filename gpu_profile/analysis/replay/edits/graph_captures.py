"""The change without captures of CUDA graphs in the steps, and what ends a capture."""

import numpy as np

from gpu_profile.analysis.activity.activity import SYNC_NAME
from gpu_profile.analysis.activity.graph_captures import INSTANTIATE_NAME, find_capture_calls
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import (
    Change,
    free_calls,
    mark_launches,
    match_names,
    shorten,
)
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

MOST_WAITS = 1.5
"""Waits a step that leave room for a CUDA graph: from one wait to the next, which is a step."""


@once_each
def find_captures(graph: RunGraph) -> IntArray:
    """The calls of captures, with the launch that ends each. torch collects garbage, waits and
    empties its cache before a capture.
    """
    calls, ops = graph.calls, graph.ops
    launches = np.zeros(len(calls.start), bool)
    launches[ops.call[ops.call != NONE]] = True
    instantiates = match_names(graph, INSTANTIATE_NAME)[calls.name]
    first, last = find_capture_calls(calls.thread, launches, instantiates)
    captured = np.zeros(len(calls.start) + 1, np.int64)
    captured[first] += 1
    captured[last + 1] -= 1
    return np.flatnonzero(np.cumsum(captured[:-1]))


def _keep_graphs(graph: RunGraph, weights: Weights) -> Weights:
    """The host captures nothing: it goes on to the next launch at once. A wait before a capture,
    such as that for the result of the step before, stays.
    """
    calls = find_captures(graph)
    starts = graph.nodes.call_start[calls]
    weights = shorten(graph, weights, starts, weights.delay[starts])
    launches = np.isin(calls, graph.ops.call)
    return free_calls(graph, weights, calls[~launches & ~graph.calls.waits[calls]])


CAPTURES = Change("captures of CUDA graphs", _keep_graphs, ("idle",))


def waits_in_captures(graph: RunGraph) -> bool:
    """Whether threads that launch kernels make calls that wait, which end a capture, more than
    once a step: a graph may go from one wait to the next. XLA has a thread of its own for them,
    and makes its graphs itself.
    """
    calls = graph.calls
    waits = calls.waits | match_names(graph, SYNC_NAME)[calls.name]
    count = int(np.isin(calls.thread[waits], calls.thread[mark_launches(graph)]).sum())
    return count > MOST_WAITS * graph.steps * len(graph.ranks)
