"""The communicator, kind, bytes and peers of each communication kernel of a rank.

They are read from NCCL's NVTX payloads. Without payloads only the kind is known, from the kernel's
name.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.comm.nccl_payload import (
    NO_PEER,
    Launches,
    Membership,
    NcclCalls,
    find_launches,
)
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.tables.comm_kernels import (
    ALL_TO_ALL,
    KINDS,
    OTHER,
    SEND_RECV,
    comm_kernel,
    comm_kind,
)

NO_COMMUNICATOR = 0
_ALL_TO_ALL, _SEND_RECV, _OTHER = (KINDS.index(kind) for kind in (ALL_TO_ALL, SEND_RECV, OTHER))
# NCCL calls that send a message; the other calls with a peer (ncclRecv) receive one.
_SENDS = re.compile(r"^nccl(Send|Put)")


@dataclass(frozen=True, eq=False)
class Messages:
    """Point-to-point messages, in arrays of one length.

    `kernel` is a row of CommCalls. `sends` is true if the kernel sends the message to `peer`,
    false if it receives it from there. `peer` is a rank number of the kernel's communicator.
    """

    kernel: IntArray
    peer: IntArray
    sends: NDArray[np.bool_]
    bytes: IntArray


@dataclass(frozen=True, eq=False)
class CommCalls:
    """The communication kernels of a rank by start, in arrays of one length.

    `communicator` is NCCL's id, or NO_COMMUNICATOR. `kind` indexes KINDS. `bytes` is NCCL's size,
    0 where unknown; for messages between two ranks it is the larger of the bytes sent to and
    received from other ranks. `ranks` maps a communicator to (this rank's number, number of
    ranks), if its ncclCommInit was recorded.
    """

    communicator: IntArray
    kind: NDArray[np.int8]
    bytes: IntArray
    messages: Messages
    ranks: Mapping[int, tuple[int, int]]


def no_messages() -> Messages:
    """Return the arrays of no message."""
    none = np.empty(0, np.int64)
    return Messages(none, none, np.empty(0, np.bool_), none)


def kinds_of(names: Sequence[str]) -> NDArray[np.int8]:
    """The kind of each kernel, from its name alone."""
    return np.array([KINDS.index(comm_kind(name)) for name in names], np.int8)


def comm_calls(
    calls: NcclCalls,
    kernel_kinds: NDArray[np.int8],
    thread: IntArray,
    launched: IntArray,
    device: int,
    rank: int,
) -> CommCalls:
    """The communication kernels of one rank on one device.

    `kernel_kinds` holds the kind of each kernel by its name, `thread` and `launched` the thread and
    the time of each launch. `rank` is the number of the process in the run.
    """
    size = len(kernel_kinds)
    launches = find_launches(calls, thread, launched)
    communicator = np.full(size, NO_COMMUNICATOR)
    communicator[launches.kernel] = calls.communicator[launches.call]
    ranks = _find_own_ranks(calls.memberships, device)
    kind = _find_kinds(calls, launches, kernel_kinds)
    messages = _collect_messages(calls, launches)
    numbers = {
        handle: _number(handle, ranks, calls, rank) for handle in list_distinct(calls.communicator)
    }
    own_rank = np.array(
        [numbers.get(handle, NO_PEER) for handle in communicator.tolist()], np.int64
    )
    _mark_all_to_all(kind, communicator, messages, own_rank, ranks)
    sizes = _measure_sizes(calls, launches, messages, own_rank)
    return CommCalls(communicator, kind, np.rint(sizes).astype(np.int64), messages, ranks)


def _measure_sizes(
    calls: NcclCalls, launches: Launches, messages: Messages, own_rank: IntArray
) -> NDArray[np.float64]:
    """The bytes of each kernel's collectives, plus the larger of the bytes of messages that it
    sends to and receives from other ranks.
    """
    sizes, sent, got = (np.zeros(len(own_rank), np.float64) for _ in range(3))
    collective = calls.peer[launches.call] == NO_PEER
    amount = calls.size[launches.call] * launches.share
    # Not `+=`, which counts one of several calls of a kernel.
    np.add.at(sizes, launches.kernel[collective], amount[collective])
    others = messages.peer != own_rank[messages.kernel]
    for total, chosen in ((sent, messages.sends), (got, ~messages.sends)):
        rows = chosen & others
        np.add.at(total, messages.kernel[rows], messages.bytes[rows])
    return sizes + np.maximum(sent, got)


def _find_own_ranks(memberships: Sequence[Membership], device: int) -> dict[int, tuple[int, int]]:
    """(rank, size) by communicator. If one process holds several ranks of a communicator (one for
    each GPU), the rank on `device` is used.
    """
    of_device = [membership for membership in memberships if membership.device in (device, NO_PEER)]
    counts: dict[int, int] = {}
    for membership in memberships:
        counts[membership.communicator] = counts.get(membership.communicator, 0) + 1
    single = [membership for membership in memberships if counts[membership.communicator] == 1]
    return {
        membership.communicator: (membership.rank, membership.size)
        for membership in (*of_device, *single)
    }


def _number(
    communicator: int, ranks: Mapping[int, tuple[int, int]], calls: NcclCalls, rank: int
) -> int:
    """This rank's number in a communicator, or NO_PEER where unknown.

    If the communicator's init was not recorded, the number in the run is used, unless all messages
    go to one peer or `rank` is larger than every peer.
    """
    if communicator in ranks:
        return ranks[communicator][0]
    peers = list_distinct(calls.peer[calls.communicator == communicator])
    return rank if len(peers) > 1 and rank <= peers[-1] else NO_PEER


def _find_kinds(
    calls: NcclCalls, launches: Launches, kernel_kinds: NDArray[np.int8]
) -> NDArray[np.int8]:
    """The kind of each kernel, from the NCCL call where the kernel's name does not show it
    (ncclDevKernel_Generic).
    """
    kind_by_name = np.array([KINDS.index(_call_kind(name)) for name in calls.names], np.int8)
    kind = kernel_kinds.copy()
    if len(launches.call):
        of_call = kind_by_name[calls.name[launches.call]]
        sure = of_call != _OTHER
        kind[launches.kernel[sure]] = of_call[sure]
    return kind


def _call_kind(name: str) -> str:
    """The kind of an NCCL call: send_recv for "ncclSend", all_to_all for "ncclAlltoAll"."""
    kernel = comm_kernel(f"{name}Kernel")
    return kernel.kind if kernel else OTHER


def _collect_messages(calls: NcclCalls, launches: Launches) -> Messages:
    rows = np.flatnonzero(calls.peer[launches.call] != NO_PEER)
    call = launches.call[rows]
    sending = np.array([bool(_SENDS.match(name)) for name in calls.names], np.bool_)
    size = np.rint(calls.size[call] * launches.share[rows]).astype(np.int64)
    sends = sending[calls.name[call]] if len(call) else np.empty(0, np.bool_)
    return Messages(launches.kernel[rows], calls.peer[call], sends, size)


def _mark_all_to_all(
    kind: NDArray[np.int8],
    communicator: IntArray,
    messages: Messages,
    own_rank: IntArray,
    ranks: Mapping[int, tuple[int, int]],
) -> None:
    """Set the kind ALL_TO_ALL for send/receive kernels that exchange data between all ranks.

    A kernel that sends to every other rank of the communicator, or to its own rank, is such an
    exchange: a pipeline or a ring never sends to itself. If at least half of a communicator's
    kernels are exchanges, all of them are marked, because no message is sent where a rank has no
    data for another one.
    """
    if not len(messages.kernel):
        return
    to_self = messages.sends & (messages.peer == own_rank[messages.kernel])
    spread = np.zeros(len(kind), np.int64)
    pairs = np.unique(
        np.stack([messages.kernel, messages.peer])[:, messages.sends & ~to_self], axis=1
    )
    np.add.at(spread, pairs[0], 1)
    itself = np.zeros(len(kind), np.bool_)
    itself[messages.kernel[to_self]] = True
    for handle in list_distinct(communicator[messages.kernel]):
        rows = np.flatnonzero((communicator == handle) & (kind == _SEND_RECV))
        size = ranks[handle][1] if handle in ranks else int(spread[rows].max(initial=0)) + 1
        is_exchange = itself[rows] | ((spread[rows] >= size - 1) & (size > 2))
        if len(rows) and 2 * is_exchange.sum() >= len(rows):
            kind[rows] = _ALL_TO_ALL
