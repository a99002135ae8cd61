"""Match communication over the ranks by NCCL's own records: communicator, order and peers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.comm.calls import NO_COMMUNICATOR
from gpu_profile.analysis.activity.comm.lanes import (
    END_SLACK_NS,
    MATCH_SHARE,
    Arrivals,
    Collectives,
    Lane,
    fill,
    guess_shift,
    lane_of,
    shifts,
)
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.tables.comm_kernels import (
    ALL_TO_ALL,
    KINDS,
    SEND_RECV,
    SYMMETRIC_KINDS,
)

_SEND_RECV, _ALL_TO_ALL = KINDS.index(SEND_RECV), KINDS.index(ALL_TO_ALL)
_SYMMETRIC = np.array([kind in SYMMETRIC_KINDS for kind in KINDS])


def match_calls(
    ranks: Sequence[Collectives], arrivals: Sequence[Arrivals], clock_error_ns: int, first: int = 0
) -> int:
    """Write the arrivals of every communicator that NCCL names; return the next group number."""
    number = first
    for communicator in _list_communicators(ranks):
        together = _match_collectives(ranks, arrivals, communicator, number, clock_error_ns)
        between = _match_messages(ranks, arrivals, communicator, number, clock_error_ns)
        number += together or between
    return number


@dataclass(frozen=True, eq=False)
class MessagePairs:
    """Rows of the kernels with which one rank sends to another, and of the matching receives."""

    sender: int
    receiver: int
    sends: IntArray
    receives: IntArray


def pair_messages(ranks: Sequence[Collectives], clock_error_ns: int = 0) -> Iterator[MessagePairs]:
    """The kernels that send to and receive from each other, of every communicator and two ranks."""
    for communicator in _list_communicators(ranks):
        owners = number_owners(ranks, communicator)
        yield from _list_pairs(ranks, owners, communicator, clock_error_ns)


def _list_communicators(ranks: Sequence[Collectives]) -> list[int]:
    """The ids of the communicators, by the start of their first kernel."""
    first: dict[int, int] = {}
    for collectives in ranks:
        for communicator in list_distinct(collectives.communicator):
            start = int(collectives.start[collectives.communicator == communicator].min())
            first[communicator] = min(first.get(communicator, start), start)
    first.pop(NO_COMMUNICATOR, None)
    return sorted(first, key=lambda communicator: (first[communicator], communicator))


def _match_collectives(
    ranks: Sequence[Collectives],
    arrivals: Sequence[Arrivals],
    communicator: int,
    number: int,
    clock_error_ns: int,
) -> bool:
    lanes = list(_list_lanes(ranks, communicator))
    shifts_of = [(lane, _find_shift(lanes[0], lane, clock_error_ns)) for lane in lanes[1:]]
    joined = [(lane, 0) for lane in lanes[:1]]
    joined += [(lane, shift) for lane, shift in shifts_of if shift is not None]
    if len(joined) < 2:
        return False
    fill(arrivals, joined, number, clock_error_ns)
    return True


def _list_lanes(ranks: Sequence[Collectives], communicator: int) -> Iterator[Lane]:
    """The collectives of each rank in this communicator, where it has some."""
    for owner, collectives in enumerate(ranks):
        is_member = collectives.communicator == communicator
        rows = np.flatnonzero(is_member & (collectives.kind != _SEND_RECV))
        if len(rows):
            yield lane_of(owner, collectives, rows)


def _find_shift(first: Lane, lane: Lane, clock_error_ns: int) -> int | None:
    """The shift (see shifts) that pairs the collectives of two lanes, or None.

    The kinds and sizes must agree in order, and the kernels must overlap in time.
    """
    guess = guess_shift(first, lane)
    for shift, rows, other in shifts(len(first.rows), len(lane.rows), guess):
        late = np.maximum(first.start[rows], lane.start[other]) - clock_error_ns
        meet = late <= np.minimum(first.end[rows], lane.end[other]) + END_SLACK_NS
        kind = first.kind[rows]
        # In a broadcast the root's kernel can end before the receivers' kernels start.
        meet |= ~_SYMMETRIC[kind]
        even = (first.bytes[rows] == lane.bytes[other]) | (kind == _ALL_TO_ALL)
        if (meet & even & (kind == lane.kind[other])).mean() >= MATCH_SHARE:
            return shift
    return None


def _match_messages(
    ranks: Sequence[Collectives],
    arrivals: Sequence[Arrivals],
    communicator: int,
    number: int,
    clock_error_ns: int,
) -> bool:
    owners = number_owners(ranks, communicator)
    partner: dict[int, IntArray] = {}
    for pairs in _list_pairs(ranks, owners, communicator, clock_error_ns):
        for owner, rows, other, theirs in (
            (pairs.sender, pairs.sends, pairs.receiver, pairs.receives),
            (pairs.receiver, pairs.receives, pairs.sender, pairs.sends),
        ):
            latest = partner.setdefault(owner, np.full(len(ranks[owner]), np.iinfo(np.int64).min))
            np.maximum.at(latest, rows, ranks[other].start[theirs])
    for owner, latest in partner.items():
        _write(ranks[owner], arrivals[owner], latest, number, len(owners))
    return bool(partner)


def _write(
    collectives: Collectives, arrivals: Arrivals, partner: IntArray, number: int, size: int
) -> None:
    """Write the arrivals of one rank's send and receive kernels.

    `lateness` is limited to the length of the kernel: a small message can be sent before the
    receiver's kernel starts, and then no rank waits that long.
    """
    rows = np.flatnonzero(partner != np.iinfo(np.int64).min)
    start, end = collectives.start[rows], collectives.end[rows]
    arrivals.last[rows] = np.clip(partner[rows], start, end)
    arrivals.lateness[rows] = np.maximum(start - partner[rows], start - end)
    arrivals.group[rows] = number
    arrivals.ranks[rows] = size
    arrivals.order[rows] = np.arange(len(rows))


def number_owners(ranks: Sequence[Collectives], communicator: int) -> dict[int, int]:
    """Map each rank number of a communicator to the index in `ranks`.

    The numbers come from NCCL's init ranges. If these are missing for some rank, the order of the
    run is used: the first rank with the communicator is number 0.
    """
    members = [
        index
        for index, collectives in enumerate(ranks)
        if (collectives.communicator == communicator).any()
    ]
    owning = [index for index in members if communicator in ranks[index].members]
    owners = {ranks[index].members[communicator][0]: index for index in owning}
    return owners if len(owners) == len(members) else dict(enumerate(members))


def _list_pairs(
    ranks: Sequence[Collectives], owners: dict[int, int], communicator: int, clock_error_ns: int
) -> Iterator[MessagePairs]:
    for source, sender in owners.items():
        for target, receiver in owners.items():
            sends = _list_kernels(ranks[sender], communicator, target, sends=True)
            receives = _list_kernels(ranks[receiver], communicator, source, sends=False)
            if sender == receiver or not len(sends[0]) or not len(receives[0]):
                continue
            shift = _find_message_shift(
                ranks[sender], sends, ranks[receiver], receives, clock_error_ns
            )
            if shift is not None:
                rows, other = shift
                yield MessagePairs(sender, receiver, sends[0][rows], receives[0][other])


def _list_kernels(
    collectives: Collectives, communicator: int, peer: int, *, sends: bool
) -> tuple[IntArray, IntArray]:
    """Kernel rows and bytes of the messages with one peer, by start."""
    messages = collectives.messages
    chosen = (messages.peer == peer) & (messages.sends == sends)
    chosen &= (collectives.communicator[messages.kernel] == communicator) & (
        collectives.kind[messages.kernel] == _SEND_RECV
    )
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(collectives.start[messages.kernel[rows]], kind="stable")]
    return messages.kernel[rows], messages.bytes[rows]


def _find_message_shift(
    sender: Collectives,
    sends: tuple[IntArray, IntArray],
    receiver: Collectives,
    receives: tuple[IntArray, IntArray],
    clock_error_ns: int,
) -> tuple[slice, slice] | None:
    """The slices under which sends and receives match, with the kernel ends nearest to each other.

    Message sizes must agree, and no message may be received before it is sent.
    """
    best, least = None, np.inf
    for shift, rows, other in shifts(len(sends[0]), len(receives[0])):
        a, b = sends[0][rows], receives[0][other]
        alike: NDArray[np.bool_] = sends[1][rows] == receives[1][other]
        alike = alike & (sender.start[a] - clock_error_ns <= receiver.end[b] + END_SLACK_NS)
        apart = float(np.median(np.abs(sender.end[a] - receiver.end[b]))) + abs(shift)
        if alike.mean() >= MATCH_SHARE and apart < least:
            best, least = (rows, other), apart
    return best
