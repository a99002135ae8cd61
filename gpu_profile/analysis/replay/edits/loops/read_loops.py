"""The launches of a loop that copies a few bytes in each turn: it reads the norm of each gradient,
or takes the indices of each row to the GPU.
"""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, SET, SYNC_NAME
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import free_calls, match_names
from gpu_profile.analysis.replay.edits.loops.backward_loops import find_backward_rows
from gpu_profile.analysis.replay.edits.loops.fused_kernels import fuse_kernels, measure_shares
from gpu_profile.analysis.replay.edits.loops.launch_rows import LEAST_ROW, mark_runs
from gpu_profile.analysis.replay.edits.loops.tiny_kernels import join_rows
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

MOST_LAUNCHES, MOST_NS = 3, 10_000
"""Of a turn, and of each kernel in it on the whole GPU. The norm of a gradient is a fill and a
kernel of 2 to 6 us, the choice of a beam's words one block for 30 to 50 us; a turn of a solver
takes longer."""
MOST_OF_ITEM, NARROW = 6, 1 / LEAST_ROW
"""A turn before a read has so many launches where each kernel leaves as much of the GPU idle as the
other turns of a row take: it works on one item of a batch. The tokens of an image that are masked
are an eq, a cast, a sum, a topk, a sort and a fill, of one block each."""
MOST_READS = 2
"""In a row in a turn: topk, max and sort have two results. More are of a value that was there
before, such as the edges of a box, and what is launched between them makes none of it."""


@dataclass(frozen=True, eq=False)
class _Turns:
    """Launches between copies of a loop: those of turn i are `launches[begin[i]:end[i]]`, and
    `count[i]` copies follow them. `launches` are all calls that launch something.
    """

    launches: IntArray
    begin: IntArray
    end: IntArray
    count: IntArray

    def sum(self, values: IntArray | Flags) -> IntArray:
        """The sums of these values of each call, by turn."""
        sums = np.r_[0, np.cumsum(values[self.launches])]
        return np.asarray(sums[self.end] - sums[self.begin], np.int64)

    def list_calls(self, turns: Flags, *, with_copies: bool = False) -> IntArray:
        """The calls that launch for these turns, and those that copy after each."""
        edges = np.zeros(len(self.launches) + 1, np.int64)
        edges[self.begin[turns]] += 1
        edges[self.end[turns] + with_copies * self.count[turns]] -= 1
        return self.launches[np.cumsum(edges)[:-1] > 0]


def fuse_read_loops(
    graph: RunGraph, weights: Weights, copies: IntArray, tests: IntArray
) -> Weights:
    """What a loop launches for each of its reads (`copies`) is a part of what it launches first:
    the launches take no time, and the kernels begin and end with the first one, beside each other
    where they leave multiprocessors idle. What autograd launches for it is one pass, too: a batch
    takes the place of such a loop, with all of the host's work in it. Of another one the host may
    need the values one by one. `tests`: kernels that go with the reads, and do not count.
    """
    turns, in_loop = _find_read_turns(graph, copies, tests)
    weights = _fuse_launches(graph, weights, turns.list_calls(in_loop))
    backward = find_backward_rows(graph, turns.launches[turns.end[in_loop]])
    if not len(backward.calls):
        return weights
    weights = free_calls(graph, weights, turns.list_calls(in_loop, with_copies=True))
    return join_rows(graph, weights, backward)


def describe_read_loops(graph: RunGraph, copies: IntArray, tests: IntArray) -> str:
    """Evidence of what autograd launches for the loops of these reads; "" without any."""
    turns, in_loop = _find_read_turns(graph, copies, tests)
    count = len(find_backward_rows(graph, turns.launches[turns.end[in_loop]]).calls) / graph.steps
    if not count:
        return ""
    return (
        f"{count:.0f} launches a step of the backward pass come as often as a loop reads: the cost "
        "is that of a batch of its turns, which has one backward pass"
    )


def _find_read_turns(graph: RunGraph, copies: IntArray, tests: IntArray) -> tuple[_Turns, Flags]:
    """The turns that end with these reads, and a mask of those in loops."""
    turns = _find_turns(graph, copies)
    step = graph.calls.step[turns.launches]
    is_turn = (turns.count <= MOST_READS) & (step[turns.begin - 1] == step[turns.end])
    is_wide = turns.sum(_mark_calls(graph, measure_shares(graph) > NARROW)) > 0
    most = np.where(is_wide, MOST_LAUNCHES, MOST_OF_ITEM)
    return turns, _mark_loops(graph, turns, is_turn, most + turns.sum(_mark_tests(graph, tests)))


def _mark_tests(graph: RunGraph, tests: IntArray) -> Flags:
    """A mask of the calls that launch these kernels."""
    return _mark_calls(graph, np.isin(np.arange(len(graph.ops.call)), tests))


def fuse_write_loops(graph: RunGraph, weights: Weights, copies: IntArray) -> Weights:
    """What a loop takes to the GPU in each turn (`copies`) is one copy, and what it launches for it
    is a part of what it launches first, as in fuse_read_loops().

    The values come from the host, which has them before the loop begins, and a step may be a turn.
    """
    return _fuse_launches(graph, weights, _list_written(graph, copies))


def find_turn_copies(graph: RunGraph, copies: IntArray) -> IntArray:
    """Those of these copies to the GPU that a loop makes in each turn, but for its first one. What
    waits for a copy is told with the waits.
    """
    waits = match_names(graph, SYNC_NAME)[graph.calls.name]
    calls, thread = graph.ops.call[copies].astype(np.int64), graph.calls.thread
    next_call = np.minimum(calls + 1, len(waits) - 1)
    free = copies[~(waits[next_call] & (thread[next_call] == thread[calls]))]
    in_loop = np.isin(graph.ops.call[free], _list_written(graph, free))
    return np.asarray(free[in_loop], np.int64)


def describe_write_loops(graph: RunGraph, copies: IntArray) -> str:
    """Evidence of the loops whose `copies` to the GPU are one; "" without any."""
    calls = _list_written(graph, copies)
    if not len(calls):
        return ""
    of_copies = np.count_nonzero(np.isin(calls, graph.ops.call[copies])) / graph.steps
    launches = len(calls) / graph.steps - of_copies
    return (
        f"{of_copies:.1f} small copies to the GPU and {launches:.1f} launches a step are of a loop "
        "that copies in each turn: the cost is that of one copy and one turn for all"
    )


def _list_written(graph: RunGraph, copies: IntArray) -> IntArray:
    turns = _find_turns(graph, copies)
    in_loop = _mark_loops(graph, turns, np.ones(len(turns.end), bool))
    return turns.list_calls(in_loop, with_copies=True)


def _fuse_launches(graph: RunGraph, weights: Weights, calls: IntArray) -> Weights:
    ops = np.flatnonzero(graph.live & np.isin(graph.ops.call, calls))
    fused = fuse_kernels(graph, weights, ops, measure_shares(graph)[ops])
    return free_calls(graph, fused, calls)


def _find_turns(graph: RunGraph, copies: IntArray) -> _Turns:
    """What is launched between these copies; those in a row end one turn."""
    launches = np.unique(graph.ops.call[graph.ops.call != NONE]).astype(np.int64)
    places = np.flatnonzero(np.isin(launches, graph.ops.call[copies]))
    first = np.flatnonzero(np.r_[True, np.diff(places) > 1][: len(places)])
    count = np.diff(np.r_[first, len(places)])[1:]
    return _Turns(launches, places[first[1:] - 1] + 1, places[first[1:]], count)


def _mark_loops(
    graph: RunGraph, turns: _Turns, is_turn: Flags, most: IntArray | int = MOST_LAUNCHES
) -> Flags:
    """A mask of the turns in a loop: of six or more, each with `most` short kernels. One launch of
    a CUDA graph, whose kernels were recorded one by one, can hold many.
    """
    kernels = np.bincount(graph.ops.call[graph.ops.call != NONE], minlength=len(graph.calls.start))
    is_short = (turns.sum(kernels) <= most) & (turns.sum(_mark_long(graph)) == 0)
    thread = graph.calls.thread[turns.launches[turns.end]].astype(np.int64)
    return mark_runs(is_turn & is_short, thread)


def _mark_long(graph: RunGraph) -> Flags:
    """A mask of the calls that copy, or launch a kernel of more than MOST_NS on the whole GPU."""
    ops = graph.ops
    is_long = (ops.end - ops.start) * measure_shares(graph) > MOST_NS
    return _mark_calls(graph, is_long | ~np.isin(ops.kind, (COMPUTE, SET)))


def _mark_calls(graph: RunGraph, ops: Flags) -> Flags:
    """A mask of the calls that launch these operations."""
    marks = np.zeros(len(graph.calls.start), bool)
    marks[graph.ops.call[ops & (graph.ops.call != NONE)]] = True
    return marks
