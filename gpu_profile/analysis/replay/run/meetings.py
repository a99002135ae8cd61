"""Which operations of different ranks wait for each other: collectives and messages."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION
from gpu_profile.analysis.activity.comm.lanes import Arrivals, Collectives
from gpu_profile.analysis.activity.comm.match_calls import pair_messages
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import Columns


@dataclass(frozen=True, eq=False)
class Meetings:
    """`group[i]` is the collective of operation `ops[i]`, counted from 0. `pairs` are messages:
    (operation that sends, operation that receives), of shape (n, 2). `last`: when the last rank
    arrives at each collective (ns), also one that is not in the graph.
    """

    ops: IntArray
    group: IntArray
    pairs: IntArray
    last: IntArray

    def mark_members(self, count: int) -> Flags:
        """A mask over all `count` operations of those that wait for another rank."""
        marks = np.zeros(count, bool)
        marks[self.ops] = True
        marks[self.pairs.ravel()] = True
        return marks


def find_meetings(
    columns: Columns,
    collectives: Sequence[Collectives],
    arrivals: Sequence[Arrivals],
    clock_error_ns: int = 0,
) -> Meetings:
    """The meetings of the operations in the graph; `collectives` and `arrivals` by rank."""
    places = _place_kernels(columns, [len(calls) for calls in collectives])
    pairs = [np.empty((0, 2), np.int64)]
    for pair in pair_messages(collectives, clock_error_ns):
        sends, receives = places[pair.sender][pair.sends], places[pair.receiver][pair.receives]
        pairs.append(np.stack((sends, receives), axis=1))
    messages = np.concatenate(pairs)
    messages = messages[(messages != NONE).all(axis=1)]
    ops, group, others = _group_collectives(places, arrivals, np.unique(messages))
    last = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, group, np.maximum(columns.ops.start[ops], others))
    return Meetings(ops, group, messages, last)


def _place_kernels(columns: Columns, sizes: Sequence[int]) -> list[IntArray]:
    """For each rank the operation in the graph of each of its communication kernels, or NONE."""
    places = [np.full(size, NONE) for size in sizes]
    communication = np.flatnonzero(columns.ops.kind == COMMUNICATION)
    for rank, place in enumerate(places):
        of_rank = communication[columns.op_rank[communication] == rank]
        place[columns.ops.comm[of_rank]] = of_rank
    return places


def _group_collectives(
    places: Sequence[IntArray], arrivals: Sequence[Arrivals], messages: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """(operations, number of their collective, when ranks that are not in the graph arrive), of
    collectives with at least two members.
    """
    ops = np.concatenate(places)
    group = np.concatenate([arrived.group for arrived in arrivals])
    order = np.concatenate([arrived.order for arrived in arrivals])
    matched = np.concatenate([arrived.is_matched for arrived in arrivals])
    chosen = np.flatnonzero(matched & (ops != NONE) & ~np.isin(ops, messages))
    keys = np.stack((group[chosen], order[chosen]), axis=1)
    _, number, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    number = number.ravel()
    together = count[number] > 1
    _, dense = np.unique(number[together], return_inverse=True)
    members, rows = count[number][together], chosen[together]
    ranks = np.concatenate([arrived.ranks for arrived in arrivals])[rows]
    last = np.concatenate([arrived.last for arrived in arrivals])[rows]
    others = np.where(members < ranks, last, np.iinfo(np.int64).min)
    return ops[rows], dense.astype(np.int64), others
