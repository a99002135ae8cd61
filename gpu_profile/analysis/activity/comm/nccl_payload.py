"""Decode the payloads of NCCL's NVTX ranges: communicator, message size, peer and rank.

They exist only in reports exported with --include-blobs=true. Layout of a blob: four u64 (domain,
schema, size of the payload, its offset), then the payload. The offsets of the payload's fields are
in the table NVTX_PAYLOAD_SCHEMA_ENTRIES. The id of a communicator is the same on all its ranks.
NCCL's size is the bytes that one rank sends (all-gather) or receives (reduce-scatter), or the
whole message (all-reduce).
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Database, Value
from gpu_profile.analysis.store.schema import NVTX

COMMUNICATOR, SIZE, PEER = "NCCL communicator ID", "Message size [bytes]", "Peer rank"
RANKS, RANK, DEVICE = "No. of ranks", "Rank", "CUDA device"
# The struct format of each field that is read.
_FORMATS = {COMMUNICATOR: "<q", SIZE: "<Q", PEER: "<i", RANKS: "<i", RANK: "<i", DEVICE: "<i"}
GROUP_START, GROUP_END = "ncclGroupStart", "ncclGroupEnd"
NCCL_CALL = re.compile(r"^nccl[A-Z]")
HEADER = struct.Struct("<4Q")
NO_PEER = -1
# 281 TB, a thousand times the memory of a GPU: a larger size is damage.
_LARGEST_MESSAGE = 1 << 48

Schemas = Mapping[int, Mapping[str, int]]
"""Byte offsets of the payload fields that are read, by schema id and field name."""


@dataclass(frozen=True)
class NcclRange:
    """One NVTX range of NCCL. `fields` holds the payload's values by name; it is empty without
    payload.
    """

    start: int
    end: int
    thread: int
    name: str
    fields: Mapping[str, int]


@dataclass(frozen=True)
class Membership:
    """The `rank` of this process in a communicator of `size` ranks, on one of its devices."""

    communicator: int
    device: int
    rank: int
    size: int


@dataclass(frozen=True, eq=False)
class NcclCalls:
    """NCCL calls of one process that communicate, sorted by start, in arrays of one length.

    `start` and `end` are those of the range in which the call's kernel is launched: the range of
    the call itself, or of the ncclGroupEnd that ends its group. `name` indexes `names`. `peer` is
    a rank of the communicator, NO_PEER for a collective.
    """

    start: IntArray
    end: IntArray
    thread: IntArray
    name: IntArray
    names: tuple[str, ...]
    communicator: IntArray
    size: IntArray
    peer: IntArray
    memberships: tuple[Membership, ...]


@once_each
def _known_ranges(database: Database) -> list[NcclRange]:
    return list(_ranges(database))


def load_nccl_calls(database: Database, process: int) -> NcclCalls:
    """The NCCL calls with a payload of one process (a globalPid); empty if the report has none."""
    ranges = [r for r in _known_ranges(database) if r.thread & ~0xFFFFFF == process]
    calls = []
    for thread in sorted({one.thread for one in ranges}):
        calls += list(_launching(sorted((r for r in ranges if r.thread == thread), key=_begin)))
    calls.sort(key=lambda pair: (pair[0].start, pair[1].start))
    names = sorted({call.name for _, call in calls})
    rows = [
        (
            *(outer.start, outer.end, call.thread, names.index(call.name)),
            *(call.fields[COMMUNICATOR], call.fields[SIZE], call.fields.get(PEER, NO_PEER)),
        )
        for outer, call in calls
    ]
    table = np.array(rows, np.int64).reshape(-1, 7)
    return NcclCalls(
        start=table[:, 0],
        end=table[:, 1],
        thread=table[:, 2],
        name=table[:, 3],
        names=tuple(names),
        communicator=table[:, 4],
        size=table[:, 5],
        peer=table[:, 6],
        memberships=tuple(dict.fromkeys(_memberships(ranges))),
    )


def _begin(one: NcclRange) -> tuple[int, int]:
    return one.start, -one.end


def _launching(ranges: list[NcclRange]) -> Iterator[tuple[NcclRange, NcclRange]]:
    """Yield (range that launches the kernel, call) for each call of one thread.

    Groups nest, and the kernels of a group are launched by the outermost ncclGroupEnd.
    """
    depth, waiting = 0, list[NcclRange]()
    for one in ranges:
        if one.name == GROUP_START:
            depth += 1
        elif one.name == GROUP_END:
            depth = max(0, depth - 1)
            if not depth:
                yield from ((one, call) for call in waiting)
                waiting = []
        elif COMMUNICATOR in one.fields and SIZE in one.fields:
            if depth:
                waiting.append(one)
            else:
                yield one, one


def _memberships(ranges: list[NcclRange]) -> Iterator[Membership]:
    for one in ranges:
        if all(field in one.fields for field in (COMMUNICATOR, RANKS, RANK)):
            rank, size = one.fields[RANK], one.fields[RANKS]
            if 0 <= rank < size:
                device = one.fields.get(DEVICE, -1)
                yield Membership(one.fields[COMMUNICATOR], device, rank, size)


def _ranges(database: Database) -> Iterator[NcclRange]:
    """Every NCCL range of the report, with its payload decoded."""
    schemas = _schemas(database)
    if not schemas or not database.has(NVTX, "binaryData", "textId"):
        return
    # The calls of each step have the payloads of the step before: each is decoded once.
    names, fields = _names(database), cache(partial(_fields, schemas=schemas))
    columns = ("start", "end", "globalTid", "textId", "binaryData")
    for start, end, thread, text, blob in database.rows(NVTX, *columns, only={"textId": names}):
        if start is None or end is None or thread is None:
            continue
        place = int(str(start)), int(str(end)), int(str(thread))
        yield NcclRange(*place, names[_id(text)], fields(blob))


def _id(value: Value) -> int:
    return int(str(value))


def _names(database: Database) -> dict[int, str]:
    return database.names(np.array(database.ids(NCCL_CALL), np.int64))


def _schemas(database: Database) -> Schemas:
    schemas: dict[int, dict[str, int]] = {}
    for schema, name, at in database.rows(
        "NVTX_PAYLOAD_SCHEMA_ENTRIES", "schemaId", "name?", "offset?"
    ):
        if name in _FORMATS:
            schemas.setdefault(_id(schema), {})[str(name)] = int(str(at or 0))
    return schemas


def _fields(blob: Value, schemas: Schemas) -> dict[str, int]:
    """The fields of a payload; empty if the payload is damaged or its schema is unknown."""
    if not isinstance(blob, bytes) or len(blob) < HEADER.size:
        return {}
    _, schema, length, begin = HEADER.unpack_from(blob)
    if begin + length > len(blob):
        return {}
    fields = {}
    for name, at in schemas.get(schema, {}).items():
        letter = _FORMATS[name]
        if at >= 0 and at + struct.calcsize(letter) <= length:
            fields[name] = int(struct.unpack_from(letter, blob, begin + at)[0])
    return fields if fields.get(SIZE, 0) <= _LARGEST_MESSAGE else {}


@dataclass(frozen=True, eq=False)
class Launches:
    """Which NCCL calls each kernel carries out, as pairs of `kernel` and `call` (rows of
    NcclCalls).
    """

    kernel: IntArray
    call: IntArray
    share: NDArray[np.float64]
    """The part of the call's message that this kernel moves: 0.5 where a group launched two."""


def find_launches(calls: NcclCalls, thread: IntArray, launched: IntArray) -> Launches:
    """The NCCL calls behind each kernel, by the `thread` and the time of its launch.

    A group of calls can launch one kernel for each communicator (in the order of the first calls),
    or one kernel for each call. With any other number of kernels and one communicator, each kernel
    is given an equal share of every call.
    """
    launches: list[tuple[int, int, float]] = []
    for owner in list_distinct(calls.thread):
        thread_calls = np.flatnonzero(calls.thread == owner)
        starts, first = np.unique(calls.start[thread_calls], return_index=True)
        ends = calls.end[thread_calls][first]
        rows = np.flatnonzero(thread == owner)
        rows = rows[np.argsort(launched[rows], kind="stable")]
        place = np.searchsorted(starts, launched[rows], side="right") - 1
        inside = (place >= 0) & (launched[rows] <= ends[np.maximum(place, 0)])
        batches: dict[int, list[int]] = {}
        for kernel, batch in zip(rows[inside].tolist(), place[inside].tolist(), strict=True):
            batches.setdefault(batch, []).append(kernel)
        behind = np.r_[first, len(thread_calls)]
        for batch, kernels in batches.items():
            launches += _assign(calls, kernels, thread_calls[behind[batch] : behind[batch + 1]])
    table = np.array(launches, np.float64).reshape(-1, 3).T
    return Launches(table[0].astype(np.int64), table[1].astype(np.int64), table[2])


def _assign(
    calls: NcclCalls, kernels: list[int], rows: IntArray
) -> Iterator[tuple[int, int, float]]:
    communicators = list(dict.fromkeys(calls.communicator[rows].tolist()))
    if len(kernels) == len(communicators):
        owner = dict(zip(communicators, kernels, strict=True))
        for row in rows.tolist():
            yield owner[int(calls.communicator[row])], row, 1.0
    elif len(kernels) == len(rows):
        for kernel, row in zip(kernels, rows.tolist(), strict=True):
            yield kernel, row, 1.0
    elif len(communicators) == 1:
        for row in rows.tolist():
            yield from ((kernel, row, 1 / len(kernels)) for kernel in kernels)
