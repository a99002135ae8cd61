"""Decode the payloads of NCCL's NVTX ranges: communicator, message size, peer and rank.

They exist only in reports exported with --include-blobs=true. NCCL's fields:
https://github.com/NVIDIA/nccl/blob/master/src/include/nvtx_payload_schemas.h

Layout of a blob: four u64 (domain, schema, size of the payload, its offset), then the payload. The
offsets of the payload's fields are in the table NVTX_PAYLOAD_SCHEMA_ENTRIES. The id of a
communicator is the same on all its ranks. NCCL's size is the bytes that one rank sends (all-gather)
or receives (reduce-scatter), or the whole message (all-reduce).
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.cells import blob, integer, integer_or_none, text
from gpu_profile.analysis.store.database import MISSING, Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import NVTX, process_of

COMMUNICATOR, SIZE, PEER = "NCCL communicator ID", "Message size [bytes]", "Peer rank"
RANKS, RANK, DEVICE = "No. of ranks", "Rank", "CUDA device"
# The struct format of each field that is read.
FIELD_FORMATS = {COMMUNICATOR: "<q", SIZE: "<Q", PEER: "<i", RANKS: "<i", RANK: "<i", DEVICE: "<i"}
GROUP_START, GROUP_END = "ncclGroupStart", "ncclGroupEnd"
NCCL_CALL = re.compile(r"^nccl[A-Z]")
HEADER = struct.Struct("<4Q")
NO_PEER = -1
# 281 TB, a thousand times the memory of a GPU: a larger size is damage.
_LARGEST_MESSAGE = 1 << 48

Schemas = Mapping[int, Mapping[str, int]]
"""Byte offsets of the payload fields that are read, by schema id and field name."""


@dataclass(frozen=True, eq=False)
class NcclRanges:
    """NVTX ranges of NCCL in the file's order, in arrays of one length.

    `name` is the id of the name in `names`. `payload` indexes `payloads`, the distinct payloads,
    each with the values of its fields by name; a range without payload has an empty one.
    """

    start: IntArray
    end: IntArray
    thread: IntArray
    name: IntArray
    payload: IntArray
    names: Mapping[int, str]
    payloads: tuple[Mapping[str, int], ...]

    def has_name(self, text: str) -> NDArray[np.bool_]:
        """A mask of the ranges with this name."""
        return is_among(self.name, [key for key, name in self.names.items() if name == text])

    def with_fields(self, *fields: str) -> NDArray[np.bool_]:
        """A mask of the ranges whose payload has all of these fields."""
        complete = [all(field in payload for field in fields) for payload in self.payloads]
        return np.array(complete, np.bool_)[self.payload]

    def values(self, rows: IntArray, field: str, otherwise: int = 0) -> IntArray:
        """A field of the payloads of these rows; `otherwise` where a payload lacks it."""
        values = [payload.get(field, otherwise) for payload in self.payloads]
        return np.array(values, np.int64)[self.payload[rows]]


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


def load_nccl_calls(database: Database, process: int) -> NcclCalls:
    """The NCCL calls with a payload of one process (a globalPid); empty if the report has none."""
    ranges = _load_ranges(database)
    of_process = np.flatnonzero(process_of(ranges.thread) == process)
    pairs = [np.empty((0, 2), np.int64)]
    for thread in list_distinct(ranges.thread[of_process]):
        rows = of_process[ranges.thread[of_process] == thread]
        rows = rows[np.lexsort((-ranges.end[rows], ranges.start[rows]))]
        pairs.append(np.array(list(_list_launching(ranges, rows)), np.int64).reshape(-1, 2))
    outer, call = np.concatenate(pairs).T
    order = np.lexsort((ranges.start[call], ranges.start[outer]))
    outer, call = outer[order], call[order]
    keys = list_distinct(ranges.name[call])
    names = sorted({ranges.names[key] for key in keys})
    codes = np.array([names.index(ranges.names[key]) for key in keys], np.int64)
    return NcclCalls(
        start=ranges.start[outer],
        end=ranges.end[outer],
        thread=ranges.thread[call],
        name=codes[np.searchsorted(keys, ranges.name[call])],
        names=tuple(names),
        communicator=ranges.values(call, COMMUNICATOR),
        size=ranges.values(call, SIZE),
        peer=ranges.values(call, PEER, NO_PEER),
        memberships=tuple(dict.fromkeys(_list_memberships(ranges, of_process))),
    )


def _list_launching(ranges: NcclRanges, rows: IntArray) -> Iterator[tuple[int, int]]:
    """Yield (range that launches the kernel, call) for each call of one thread, as row numbers.

    `rows` are the thread's ranges, the outer ones first. Groups nest, and the kernels of a group
    are launched by the outermost ncclGroupEnd.
    """
    depth, waiting = 0, list[int]()
    masks = (
        ranges.has_name(GROUP_START),
        ranges.has_name(GROUP_END),
        ranges.with_fields(COMMUNICATOR, SIZE),
    )
    for row, begins, ends, calls in zip(
        rows.tolist(), *(m[rows].tolist() for m in masks), strict=True
    ):
        if begins:
            depth += 1
        elif ends:
            depth = max(0, depth - 1)
            if not depth:
                yield from ((row, call) for call in waiting)
                waiting = []
        elif calls and depth:
            waiting.append(row)
        elif calls:
            yield row, row


def _list_memberships(ranges: NcclRanges, rows: IntArray) -> Iterator[Membership]:
    """The memberships that the payloads of these rows tell, in the order of their first row."""
    for code in dict.fromkeys(ranges.payload[rows].tolist()):
        fields = ranges.payloads[code]
        if all(field in fields for field in (COMMUNICATOR, RANKS, RANK)):
            rank, size = fields[RANK], fields[RANKS]
            if 0 <= rank < size:
                yield Membership(fields[COMMUNICATOR], fields.get(DEVICE, -1), rank, size)


@once_each
def _load_ranges(database: Database) -> NcclRanges:
    """Every NCCL range of the report, with its payload decoded."""
    schemas = _load_schemas(database)
    if not schemas or not database.has(NVTX, "binaryData", "textId"):
        none = np.empty(0, np.int64)
        return NcclRanges(none, none, none, none, none, {}, ())
    names = _load_names(database)
    only = {"textId": names}
    rows = database.load(NVTX, "start", "end", "globalTid", "textId", only=only, sort=False)
    # The calls of each step have the payloads of the step before: each is decoded once.
    codes: dict[bytes | None, int] = {}
    blobs = read_records(database, NVTX, blob("binaryData"), only=only)
    payload = np.array([codes.setdefault(data, len(codes)) for (data,) in blobs], np.int64)
    columns = [rows[name] for name in ("start", "end", "globalTid")]
    is_complete = np.logical_and.reduce([column != MISSING for column in columns])
    start, end, thread = (column[is_complete] for column in columns)
    payloads = tuple(_parse_fields(data, schemas) for data in codes)
    return NcclRanges(
        start, end, thread, rows["textId"][is_complete], payload[is_complete], names, payloads
    )


def _load_names(database: Database) -> dict[int, str]:
    return database.names(np.array(database.ids(NCCL_CALL), np.int64))


def _load_schemas(database: Database) -> Schemas:
    schemas: dict[int, dict[str, int]] = {}
    columns = integer("schemaId"), text("name?"), integer_or_none("offset?")
    for schema, name, at in read_records(database, "NVTX_PAYLOAD_SCHEMA_ENTRIES", *columns):
        if name in FIELD_FORMATS:
            schemas.setdefault(schema, {})[name] = at or 0
    return schemas


def _parse_fields(payload: bytes | None, schemas: Schemas) -> dict[str, int]:
    """The fields of a payload; empty if the payload is damaged or its schema is unknown."""
    if payload is None or len(payload) < HEADER.size:
        return {}
    _, schema, length, begin = HEADER.unpack_from(payload)
    if begin + length > len(payload):
        return {}
    fields = {}
    for name, at in schemas.get(schema, {}).items():
        letter = FIELD_FORMATS[name]
        if at >= 0 and at + struct.calcsize(letter) <= length:
            fields[name] = int(struct.unpack_from(letter, payload, begin + at)[0])
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
        edges = np.r_[first, len(thread_calls)]
        for batch, kernels in batches.items():
            launches += _assign(calls, kernels, thread_calls[edges[batch] : edges[batch + 1]])
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
