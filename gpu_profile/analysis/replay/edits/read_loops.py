"""The launches of a loop that reads a value in each turn, such as the norm of each gradient."""

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, SET
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import free_calls
from gpu_profile.analysis.replay.edits.launch_rows import mark_runs
from gpu_profile.analysis.replay.edits.tiny_kernels import fuse_kernels, measure_shares
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

MOST_LAUNCHES, MOST_NS = 3, 10_000
"""Of a turn, and of each kernel in it on the whole GPU. The norm of a gradient is a fill and a
kernel of 2 to 6 us, the choice of a beam's words one block for 30 to 50 us; a turn of a solver
takes longer."""
MOST_READS = 2
"""Right behind each other in a turn: topk, max and sort have two results. More are of a value that
was there before, such as the edges of a box, and what is launched between them makes none of it."""


def fuse_read_loops(graph: RunGraph, weights: Weights, copies: IntArray) -> Weights:
    """What a loop launches for each of its reads (`copies`) is a part of what it launches first:
    the launches take no time, and the kernels begin and end with the first one, beside each other
    where they leave multiprocessors idle.
    """
    calls = _find_launches(graph, copies)
    ops = np.flatnonzero(graph.live & np.isin(graph.ops.call, calls))
    fused = fuse_kernels(graph, weights, ops, measure_shares(graph)[ops])
    return free_calls(graph, fused, calls)


def _find_launches(graph: RunGraph, copies: IntArray) -> IntArray:
    """The calls that launch for the second and later reads of a loop: of six turns or more in a
    step, each with a few short kernels before its read.
    """
    calls = graph.calls
    launches = np.unique(graph.ops.call[graph.ops.call != NONE]).astype(np.int64)
    reads = np.flatnonzero(np.isin(launches, graph.ops.call[copies]))
    # reads right behind each other end one turn
    first = np.flatnonzero(np.r_[True, np.diff(reads) > 1][: len(reads)])
    begin, end = reads[first[1:] - 1] + 1, reads[first[1:]]
    counts = np.diff(np.r_[first, len(reads)])[1:]
    before, behind = launches[begin - 1], launches[end]
    long_ones = np.r_[0, np.cumsum(_mark_long(graph)[launches])]
    is_turn = (end - begin <= MOST_LAUNCHES) & (counts <= MOST_READS)
    is_turn &= (long_ones[end] == long_ones[begin]) & (calls.step[before] == calls.step[behind])
    in_loop = mark_runs(is_turn, calls.thread[behind].astype(np.int64))
    edges = np.zeros(len(launches) + 1, np.int64)
    edges[begin[in_loop]] += 1
    edges[end[in_loop]] -= 1
    return launches[np.cumsum(edges)[:-1] > 0]


def _mark_long(graph: RunGraph) -> Flags:
    """A mask of the calls that copy, or launch a kernel of more than MOST_NS on the whole GPU."""
    ops = graph.ops
    is_long = ~np.isin(ops.kind, (COMPUTE, SET)) | (
        (ops.end - ops.start) * measure_shares(graph) > MOST_NS
    )
    marks = np.zeros(len(graph.calls.start), bool)
    marks[ops.call[is_long & (ops.call != NONE)]] = True
    return marks
