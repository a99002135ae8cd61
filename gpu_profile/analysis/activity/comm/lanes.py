"""Communication kernels of one rank in order, and their arrivals over the ranks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.comm.calls import Messages, kinds_of, no_messages
from gpu_profile.analysis.arrays.types import IntArray

# A rank whose process is descheduled sees the end of a collective late, by up to 0.7 ms in our
# recordings.
END_SLACK_NS = 1_000_000
# A capture may miss a few collectives of one rank at its start, and a window as many as the host
# of that rank is ahead of the others: then the ends of the kernels tell how many.
MOST_SHIFT = 8
MATCH_SHARE = 0.9
UNMATCHED = -1


@dataclass(frozen=True, eq=False)
class Collectives:
    """Communication kernels of one rank, sorted by start, on the run's clock.

    `name` indexes `names`. `bytes` is the size of the message, 0 where unknown. `communicator` is
    NCCL's id, or NO_COMMUNICATOR where the report does not hold it; then each `stream` is taken
    for a communicator. `kind` indexes KINDS. `messages`: see CommCalls; `members`: see
    CommCalls.ranks.
    """

    start: IntArray
    end: IntArray
    stream: IntArray
    name: IntArray
    names: tuple[str, ...]
    bytes: IntArray
    communicator: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    kind: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    messages: Messages = field(default_factory=no_messages)
    members: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Fill a missing `communicator` with NO_COMMUNICATOR, and a missing `kind` from the kernel
        names.
        """
        if len(self.communicator) != len(self.start):
            object.__setattr__(self, "communicator", np.zeros(len(self.start), np.int64))
        if len(self.kind) != len(self.start):
            object.__setattr__(self, "kind", kinds_of(self.names)[self.name])

    def __len__(self) -> int:
        return len(self.start)


_NOTHING = np.empty(0, np.int64)
NO_COLLECTIVES = Collectives(_NOTHING, _NOTHING, _NOTHING, _NOTHING, (), _NOTHING)


@dataclass(frozen=True, eq=False)
class Arrivals:
    """When the other ranks arrived at each communication kernel of one rank.

    `last` is the time at which the last rank arrived (ns). `group` is the number of the
    communicator, or UNMATCHED. `ranks` is how many ranks it has. `lateness` is how much later this
    rank came than the last of the others (ns, negative if another rank was last). `order` is the
    position within the group.
    """

    last: IntArray
    group: IntArray
    ranks: IntArray
    lateness: IntArray
    order: IntArray

    @property
    def is_matched(self) -> NDArray[np.bool_]:
        return np.asarray(self.group != UNMATCHED)


@dataclass(frozen=True, eq=False)
class Lane:
    """Consecutive kernels of one rank that belong to one communicator; `rows` indexes its
    Collectives.
    """

    owner: int
    rows: IntArray
    start: IntArray
    end: IntArray
    name: NDArray[np.str_]
    kind: NDArray[np.int8]
    bytes: IntArray


def lane_of(owner: int, collectives: Collectives, rows: IntArray) -> Lane:
    """The given rows of a rank's collectives as a lane."""
    name = np.array(collectives.names)[collectives.name[rows]]
    return Lane(
        owner,
        rows,
        collectives.start[rows],
        collectives.end[rows],
        name,
        collectives.kind[rows],
        collectives.bytes[rows],
    )


def no_arrivals(count: int) -> Arrivals:
    """Arrivals of `count` kernels, all unmatched."""
    zeros = [np.zeros(count, np.int64) for _ in range(3)]
    group = np.full(count, UNMATCHED)
    return Arrivals(zeros[0], group, np.ones(count, np.int64), zeros[1], zeros[2])


def shifts(first: int, other: int, guess: int = 0) -> Iterator[tuple[int, slice, slice]]:
    """Yield (shift, slice of the first, slice of the other) for two sequences, the smallest shift
    first, and `guess` last if it is larger.

    Each slice covers at least half of the shorter sequence, under the guess a quarter. Example:
    shift 1 pairs row 0 of the first with row 1 of the other.
    """
    most = min(MOST_SHIFT + abs(first - other), max(first, other) - 1)
    near = sorted(range(-most, most + 1), key=abs)
    for shift in near if abs(guess) <= most else [*near, guess]:
        skip, before = max(0, shift), max(0, -shift)
        size = min(other - skip, first - before)
        pieces = 2 if abs(shift) <= most else 4
        if pieces * size >= min(first, other):
            yield shift, slice(before, before + size), slice(skip, skip + size)


def guess_shift(first: Lane, lane: Lane) -> int:
    """The shift under which the first kernel that both lanes hold ends at about one time."""
    begin = max(int(first.end[0]), int(lane.end[0]))
    row, other = (int(np.argmin(np.abs(side.end - begin))) for side in (first, lane))
    return other - row


def fill(
    arrivals_by_rank: Sequence[Arrivals],
    lanes: Sequence[tuple[Lane, int]],
    number: int,
    clock_error_ns: int = 0,
) -> None:
    """Write the arrivals of one communicator's lanes into the arrivals of their ranks.

    Two kinds of kernels stay unmatched: those that some lane lacks, and those that did not run at
    the same time on all lanes. So no wait is longer than the kernel in which a rank waits.
    """
    begin = max(-shift for _, shift in lanes)
    stop = min(len(lane.rows) - shift for lane, shift in lanes)
    parts = [slice(begin + shift, stop + shift) for _, shift in lanes]
    starts = np.stack([lane.start[p] for (lane, _), p in zip(lanes, parts, strict=True)])
    ends = np.stack([lane.end[p] for (lane, _), p in zip(lanes, parts, strict=True)])
    ordered = np.sort(starts, axis=0)
    meet = ordered[-1] - clock_error_ns <= ends.min(axis=0) + END_SLACK_NS
    for (lane, _), part, start in zip(lanes, parts, starts, strict=True):
        rows = lane.rows[part][meet]
        arrivals = arrivals_by_rank[lane.owner]
        others = np.where(start == ordered[-1], ordered[-2], ordered[-1])
        arrivals.last[rows] = ordered[-1][meet]
        arrivals.lateness[rows] = (start - others)[meet]
        arrivals.group[rows] = number
        arrivals.ranks[rows] = len(lanes)
        arrivals.order[rows] = np.arange(len(rows))
