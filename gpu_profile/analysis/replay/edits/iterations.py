"""The changes of an inference engine's iterations."""

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE
from gpu_profile.analysis.replay.changes import Change, choose_calls, shorten
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights


def _go_on_at_once(graph: RunGraph, weights: Weights) -> Weights:
    """The host does nothing between a call that waits and the next launch of a kernel or graph:
    another thread does it, or it was done while the GPU worked.
    """
    ops, calls = graph.ops, graph.calls
    launches = np.zeros(len(calls.start), bool)
    works = ((ops.kind == COMPUTE) | (ops.kind == COMMUNICATION)) & (ops.call != NONE)
    launches[ops.call[works]] = True
    waited = np.r_[0, np.cumsum(calls.waits)[:-1]]
    launched = np.r_[0, np.cumsum(launches)[:-1]]
    # How many launches there were when the last call that waits ended.
    before = np.maximum.accumulate(np.where(np.r_[False, calls.waits[:-1]], launched, 0))
    same = np.r_[False, calls.thread[1:] == calls.thread[:-1]]
    between = choose_calls(graph) & same & (waited > 0) & (launched == before)
    starts = graph.nodes.call_start[np.flatnonzero(between)]
    return shorten(graph, weights, starts, weights.delay[starts])


DECODE_GAP = Change("host work between iterations", _go_on_at_once, ("decode_gap",))
