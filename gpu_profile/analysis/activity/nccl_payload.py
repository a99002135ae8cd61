"""Message sizes that NCCL itself gives: the payload of its NVTX ranges.

There only if the report was exported with --include-blobs=true. Layout of a blob: four u64 (domain,
schema, size of the payload, its offset), then the payload; its fields' offsets are in
NVTX_PAYLOAD_SCHEMA_ENTRIES. NCCL's size is what one rank sends (all-gather) or gets
(reduce-scatter), or the whole message (all-reduce).
"""

import struct

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import NVTX

SIZE_FIELD = "Message size [bytes]"
HEADER = struct.Struct("<4Q")


def message_sizes(database: Database, process: int, thread: IntArray, called: IntArray) -> IntArray:
    """Bytes of the message whose NCCL range was open on the `thread` (a globalTid of the process)
    when each kernel was `called`; 0 where none was, or where the report has no payloads."""
    found = np.zeros(len(called), np.int64)
    ranges = [row for row in _payloads(database) if row[2] & ~0xFFFFFF == process]
    for owner in {row[2] for row in ranges}:
        mine = sorted(row for row in ranges if row[2] == owner)
        start, end, _, size = (np.array(column, np.int64) for column in zip(*mine, strict=True))
        rows = np.flatnonzero(thread == owner)
        place = np.maximum(np.searchsorted(start, called[rows], side="right") - 1, 0)
        inside = (start[place] <= called[rows]) & (called[rows] <= end[place])
        found[rows] = np.where(inside, size[place], 0)
    return found


def _payloads(database: Database) -> list[tuple[int, int, int, int]]:
    """(start, end, globalTid, bytes) of every range that tells a message's size."""
    rows = database.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", "schemaId", "name?", "offset?")
    offsets = {int(str(s)): int(str(at or 0)) for s, name, at in rows if name == SIZE_FIELD}
    if not offsets or not database.has(NVTX, "binaryData"):
        return []
    # Most exports have the column and nothing in it.
    if not any(blob for (blob,) in database.rows(NVTX, "binaryData")):
        return []
    found = []
    for start, end, thread, blob in database.rows(NVTX, "start", "end", "globalTid", "binaryData"):
        size = _size(blob, offsets) if isinstance(blob, bytes) and end is not None else None
        if size is not None:
            found.append((int(str(start)), int(str(end)), int(str(thread)), size))
    return found


def _size(blob: bytes, offsets: dict[int, int]) -> int | None:
    if len(blob) < HEADER.size:
        return None
    _, schema, length, begin = HEADER.unpack_from(blob)
    at = offsets.get(schema)
    if at is None or at + 8 > length or begin + length > len(blob):
        return None
    return int(struct.unpack_from("<Q", blob, begin + at)[0])
