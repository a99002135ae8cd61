"""Operations of different streams that take turns on an engine of the GPU: on its multiprocessors,
or on what copies of one direction go over.
"""

from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, COPY
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.rank.rank_graph import BEFORE, NONE
from gpu_profile.analysis.replay.run.run_graph import Columns

MOST_TAIL, MOST_TAIL_NS = 0.05, 30_000
"""A kernel begins when the last blocks of the one before it run, 12 to 17 us before the end of one
of 2 to 3 ms: cuDNN's convolutions by Fourier transforms work on two streams so (H200)."""
_MULTIPROCESSORS = -2


@dataclass(frozen=True, eq=False)
class Turns:
    """Rows of operations: the last one of a stream's turn, and the first one of the next turn on
    another stream for which there was no room `last_ops`.
    """

    last_ops: IntArray
    next_ops: IntArray


def find_turns(columns: Columns) -> Turns:
    """The turns that the recorded times show. Operations that overlap by more than a tail take
    none.
    """
    ops, rank, engine = columns.ops, columns.op_rank, _find_engines(columns)
    used, room = _measure_room(columns)
    chosen = np.flatnonzero(engine != NONE)
    if not len(chosen):
        return Turns(chosen, chosen)
    order = chosen[np.lexsort((ops.start[chosen], engine[chosen], rank[chosen]))]
    keys = np.stack((rank[order], engine[order], ops.stream[order]))
    first = np.flatnonzero(np.r_[True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)])
    last, after = order[np.r_[first[1:], len(order)] - 1], order[first]
    total = np.r_[0, np.cumsum(np.maximum.reduceat(used[order], first))]
    place = np.searchsorted(total, total[1:] - room[after], "left") - 1
    before = last[np.maximum(place, 0)]
    takes_turns = (rank[before] == rank[after]) & (engine[before] == engine[after])
    takes_turns &= (ops.stream[before] != ops.stream[after]) & (place >= 0)
    tail = np.minimum(MOST_TAIL * (ops.end[before] - ops.start[before]), MOST_TAIL_NS)
    takes_turns &= ops.end[before] - tail <= ops.start[after]
    return Turns(before[takes_turns], after[takes_turns])


def end_turns(columns: Columns, turns: Turns) -> Columns:
    """The columns, where each turn ends when the next one begins."""
    end = columns.ops.end.copy()
    np.minimum.at(end, turns.last_ops, columns.ops.start[turns.next_ops])
    return replace(columns, ops=replace(columns.ops, end=end))


def end_tails(columns: Columns) -> Columns:
    """The columns, where an operation ends when the next one of its stream begins, if that begins
    in its second half and ends later.

    The last blocks of a kernel run beside the first of the next one: 0.03 to 2 us, and 13 of a
    kernel of 1 ms (H200). The next one still waits for all of it, so that a shorter kernel makes
    it begin earlier.
    """
    ops, (before, later) = columns.ops, pair_streams(columns)
    tail = ops.end[before] - ops.start[later]
    is_tail = (tail > 0) & (2 * tail <= ops.end[before] - ops.start[before])
    is_tail &= ops.end[later] >= ops.end[before]
    end = ops.end.copy()
    end[before[is_tail]] = ops.start[later[is_tail]]
    return replace(columns, ops=replace(ops, end=end))


def pair_streams(columns: Columns) -> tuple[IntArray, IntArray]:
    """Each operation and the next one of its stream, in the order of their launches. What was
    launched before the window has no call in it, and is ahead of all others on its stream.
    """
    calls, ops = columns.calls, columns.ops
    launched = ops.start
    if len(calls.start):
        launched = np.where(ops.call == NONE, ops.start, calls.start[ops.call])
    launched = np.where(ops.step == BEFORE, np.iinfo(np.int64).min, launched)
    order = np.lexsort((ops.start, launched, ops.stream))
    same = ops.stream[order][1:] == ops.stream[order][:-1]
    return order[:-1][same], order[1:][same]


def _find_engines(columns: Columns) -> IntArray:
    """What each operation runs on: the multiprocessors, if its blocks are known, or what copies of
    its direction go over (the direction's name); else NONE.
    """
    ops = columns.ops
    is_known = (_count_multiprocessors(columns) > 0) & (ops.blocks > 0) & (ops.kind == COMPUTE)
    engine = np.where(ops.kind == COPY, ops.name.astype(np.int64), NONE)
    return np.where(is_known, _MULTIPROCESSORS, engine)


def _measure_room(columns: Columns) -> tuple[IntArray, IntArray]:
    """How much of its engine each operation takes, and how much there is: a block takes one of the
    multiprocessors, a copy all of its direction.
    """
    room = np.where(columns.ops.kind == COMPUTE, _count_multiprocessors(columns), 1)
    return np.minimum(np.maximum(columns.ops.blocks, 1), room), room


def _count_multiprocessors(columns: Columns) -> IntArray:
    counts = np.array([rank.multiprocessors for rank in columns.ranks], np.int64)
    return np.asarray(counts[columns.op_rank], np.int64)
