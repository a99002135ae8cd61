"""The ranks that NCCL tells in the NVTX payloads of its initialisation."""

import re
import struct
from collections.abc import Mapping
from typing import NamedTuple

from gpu_profile.analysis.store.cells import blob, integer, integer_or_none, text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import NVTX

NCCL_INIT = re.compile(r"^ncclCommInit")
NCCL_RANK, NCCL_SIZE, NCCL_ID = "Rank", "No. of ranks", "NCCL communicator ID"
BLOB_HEADER = struct.Struct("<4Q")  # domain, schema, size of the payload, its offset


class Membership(NamedTuple):
    """A process's `rank` of `size` ranks in a communicator. Its `identity` is a hash of NCCL's
    unique id, the same on all of its ranks and another one in each run.
    """

    identity: int
    rank: int
    size: int


def read_memberships(database: Database) -> dict[int, frozenset[Membership]]:
    """The memberships by pid, in communicators that were initialised during the recording.

    The payload exists only if exported with --include-blobs=true.
    """
    fields = _init_fields(database)
    if not fields or not database.has(NVTX, "binaryData", "textId"):
        return {}
    memberships: dict[int, set[Membership]] = {}
    only = {"textId": database.ids(NCCL_INIT)}
    columns = integer("globalTid"), blob("binaryData")
    for thread, payload in read_records(database, NVTX, *columns, only=only):
        pid = thread >> 24 & 0xFFFFFF
        if payload and (membership := _read_membership(payload, fields)):
            memberships.setdefault(pid, set()).add(membership)
    return {pid: frozenset(values) for pid, values in memberships.items()}


def find_nccl_ranks(
    memberships: Mapping[int, frozenset[Membership]],
) -> dict[int, tuple[int, int]]:
    """(rank, number of ranks) by pid, in the largest communicator.

    A process with several GPUs has several ranks in one communicator, so it has no single rank and
    is left out.
    """
    return {
        pid: max(((member.rank, member.size) for member in members), key=lambda pair: pair[1])
        for pid, members in memberships.items()
        if len({member.identity for member in members}) == len(members)
    }


def _init_fields(database: Database) -> dict[int, tuple[int, int, int]]:
    """Offsets of communicator, rank and number of ranks in a payload, by schema."""
    columns = integer("schemaId"), text("name"), integer_or_none("offset")
    rows = read_records(database, "NVTX_PAYLOAD_SCHEMA_ENTRIES", *columns)
    offsets = {(schema, name): offset or 0 for schema, name, offset in rows}
    return {
        schema: (offsets.get((schema, NCCL_ID), 0), offset, offsets[schema, NCCL_SIZE])
        for (schema, name), offset in offsets.items()
        if name == NCCL_RANK and (schema, NCCL_SIZE) in offsets
    }


def _read_membership(
    payload: bytes, fields: Mapping[int, tuple[int, int, int]]
) -> Membership | None:
    """The membership, or None if the payload is damaged."""
    if len(payload) < BLOB_HEADER.size:
        return None
    _, schema, size, start = BLOB_HEADER.unpack_from(payload)
    if schema not in fields or start + size > len(payload):
        return None
    identity, rank_offset, count = fields[schema]
    if size < max(identity + 8, rank_offset + 4, count + 4):
        return None
    (communicator,) = struct.unpack_from("<Q", payload, start + identity)
    (rank,) = struct.unpack_from("<i", payload, start + rank_offset)
    (ranks,) = struct.unpack_from("<i", payload, start + count)
    return Membership(communicator, rank, ranks) if 0 <= rank < ranks else None
