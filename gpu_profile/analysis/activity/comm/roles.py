"""What a communicator is used for: data, tensor, pipeline, expert or ring parallelism.

NCCL does not record this, so it is derived from the kinds of the collectives and from their times
within a step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.comm.calls import Messages
from gpu_profile.analysis.activity.comm.lanes import UNMATCHED, Arrivals, Collectives
from gpu_profile.analysis.activity.states import RankSplit
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.tables.comm_kernels import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    KINDS,
    REDUCE_SCATTER,
    SEND_RECV,
)

DATA, TENSOR, PIPELINE, EXPERT, RING = "data", "tensor", "pipeline", "expert", "ring"
_REDUCTIONS = np.array([kind in (ALL_REDUCE, REDUCE_SCATTER) for kind in KINDS])
_SHARDED = frozenset((ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER))
# Gradients are reduced in the backward pass alone. The forward pass, the optimizer and the first
# bucket's layers therefore leave more than 0.3 of a step without a reduction. Tensor parallelism
# reduces in every layer of both passes, and the next layer waits for the result.
TENSOR_LONGEST_GAP, TENSOR_EXPOSED, TENSOR_FEWEST = 0.3, 0.5, 4
# Reductions smaller than 1 % of the largest are a loss or a norm, not gradients or activations.
SMALL_SHARE = 0.01
RING_SHARE = 0.95


@dataclass(frozen=True)
class Group:
    """The `ranks` of a communicator, and `roles`: the use of each kind of collective ("" if
    unknown).
    """

    number: int
    ranks: tuple[int, ...]
    roles: Mapping[str, str]


def short_ranks(ranks: Sequence[int]) -> str:
    """Rank numbers as text: "0-3" for consecutive numbers, "0, 2" for others."""
    numbers = sorted(ranks)
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return ", ".join(map(str, numbers))


def find_groups(splits: Sequence[RankSplit]) -> Mapping[int, Group]:
    """Every matched communicator, by its group number. A table and two findings ask for the same
    ranks, so the result is cached as that of split_exposed().
    """
    if not splits:
        return {}
    first, *_ = arrivals = [split.arrivals for split in splits]
    cache, key = _get_group_cache(first), tuple(map(ref, arrivals))
    if key not in cache:
        cache[key] = _group_ranks(splits)
    return cache[key]


@once_each
def _get_group_cache(first: Arrivals) -> dict[tuple[object, ...], dict[int, Group]]:
    """The groups of the ranks that begin with this one. No field: it would be pickled with them."""
    return {}


def _group_ranks(splits: Sequence[RankSplit]) -> dict[int, Group]:
    numbers = {int(number) for split in splits for number in list_distinct(split.arrivals.group)}
    groups = {}
    for number in sorted(numbers - {UNMATCHED}):
        members = [split for split in splits if np.any(split.arrivals.group == number)]
        ranks = tuple(sorted({split.rank for split in members}))
        groups[number] = Group(number, ranks, _find_roles(members, number))
    return groups


def _find_roles(members: Sequence[RankSplit], number: int) -> dict[str, str]:
    kinds = {
        KINDS[code]
        for split in members
        for code in list_distinct(
            split.states.collectives.kind[split.arrivals.group == number].astype(int)
        )
    }
    roles = dict.fromkeys(sorted(kinds), "")
    if ALL_TO_ALL in kinds:
        roles[ALL_TO_ALL] = EXPERT
    if SEND_RECV in kinds:
        steady = _in_each_step(members, number)
        roles[SEND_RECV] = (RING if _is_ring(members, number) else PIPELINE) if steady else ""
    sharded = kinds & _SHARDED
    if kinds & {ALL_REDUCE, REDUCE_SCATTER}:
        roles |= dict.fromkeys(sharded, _reduces_for(members, number))
    return roles


def _in_each_step(members: Sequence[RankSplit], number: int) -> bool:
    """Whether the communicator's messages are sent in every step.

    Parameters that are scattered before the first step are no pipeline. Without steps: whether
    every member both sends and receives.
    """
    with_steps = [split for split in members if len(split.states.steps)]
    for split in with_steps or members:
        collectives, steps = split.states.collectives, split.states.steps
        chosen = (split.arrivals.group == number) & (collectives.kind == KINDS.index(SEND_RECV))
        if len(steps):
            inside = (collectives.start >= steps.start[0]) & (collectives.start < steps.end[-1])
            if (chosen & inside).sum() < len(steps):
                return False
        elif not _sends_and_receives(collectives.messages, chosen):
            return False
    return True


def _sends_and_receives(messages: Messages, chosen: NDArray[np.bool_]) -> bool:
    return len(list_distinct(messages.sends[chosen[messages.kernel]].astype(int))) == 2


def _is_ring(members: Sequence[RankSplit], number: int) -> bool:
    """Whether each kernel sends to one rank and receives from another (context parallelism).

    A pipeline stage either sends to and receives from the same neighbour, or only does one of
    both. With two ranks the peers are equal in both cases, so there only the second difference
    counts.
    """
    share = RING_SHARE if len(members) > 2 else 1.0
    around = total = 0
    for split in members:
        collectives = split.states.collectives
        is_message = (split.arrivals.group == number) & (collectives.kind == KINDS.index(SEND_RECV))
        sends, receives = _sum_peers(collectives, sends=True), _sum_peers(collectives, sends=False)
        passes = (sends != 0) & (receives != 0)
        around += int((is_message & passes & ((sends != receives) | (len(members) == 2))).sum())
        total += int(is_message.sum())
    return around >= share * total


def _sum_peers(collectives: Collectives, *, sends: bool) -> IntArray:
    """For each kernel the sum of (peer + 1) over its messages in one direction; 0 without
    messages.
    """
    rows = collectives.messages.sends == sends
    sums = np.zeros(len(collectives), np.int64)
    # + 1: a message with peer 0 differs from none.
    np.add.at(sums, collectives.messages.kernel[rows], collectives.messages.peer[rows] + 1)
    return sums


def _reduces_for(members: Sequence[RankSplit], number: int) -> str:
    """TENSOR if the reductions of most members look like tensor parallelism, else DATA; "" without
    steps.
    """
    votes = [_looks_tensor(split, number) for split in members if len(split.states.steps)]
    if not votes:
        return ""
    return TENSOR if 2 * sum(votes) > len(votes) else DATA


def _looks_tensor(split: RankSplit, number: int) -> bool:
    collectives, steps = split.states.collectives, split.states.steps
    rows = np.flatnonzero((split.arrivals.group == number) & _REDUCTIONS[collectives.kind])
    size = collectives.bytes[rows]
    if not size.any():
        size = collectives.end[rows] - split.arrivals.last[rows]
    rows = rows[size >= SMALL_SHARE * size.max(initial=0)]
    gap = _find_longest_gap(collectives.start[rows], steps.start, steps.end)
    if len(rows) < TENSOR_FEWEST * len(steps) or gap > TENSOR_LONGEST_GAP:
        return False
    covered = Intervals.union(collectives.start[rows], collectives.end[rows])
    share = covered.overlap(split.states.exposed) / max(1, covered.total)
    return share >= TENSOR_EXPOSED


def _find_longest_gap(start: IntArray, begin: IntArray, end: IntArray) -> float:
    """The longest time between two reductions, as a part of a step: the median over the steps.

    The gap from a step's last reduction over its end to the step's first one counts too. 1.0
    without reductions.
    """
    length = end - begin
    step = np.searchsorted(begin, start, side="right") - 1
    inside = (step >= 0) & (start < end[step]) & (length[step] > 0)
    start, step = start[inside], step[inside]
    if not len(start):
        return 1.0
    last = np.r_[step[1:] != step[:-1], True]
    first = np.r_[0, np.flatnonzero(last)[:-1] + 1]
    gap = np.r_[start[1:], 0] - start
    # The gap over the edge: from the last reduction to the end, plus from the begin to the first
    # one.
    gap[last] = start[first] + length[step[last]] - start[last]
    longest = np.maximum.reduceat(gap, first)
    return float(np.median(longest / length[step[last]]))
