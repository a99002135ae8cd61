"""NCCL's calls of a trace: the kernel of a collective has its process group and its size.

Source of the arguments: pytorch/torch/csrc/distributed/c10d/ParamCommsUtils.hpp.
"""

import hashlib
import struct

from gpu_profile.analysis.kineto.events import Arguments

CALLS = (
    ("allreduce", "ncclAllReduce"),
    ("allgather", "ncclAllGather"),
    ("reducescatter", "ncclReduceScatter"),
    ("alltoall", "ncclAlltoAll"),
    ("broadcast", "ncclBroadcast"),
    ("reduce", "ncclReduce"),
)
"""A part of c10d's name, without "_", and NCCL's call. Messages between two ranks have no peer."""
_SIZES = {
    **dict.fromkeys(("double", "long", "int64", "float64"), 8),
    **dict.fromkeys(("float", "int", "int32", "float32"), 4),
    **dict.fromkeys(("half", "bfloat16", "short", "float16"), 2),
}
_SCHEMA = 1
SCHEMA_ENTRIES = ((1, _SCHEMA, "NCCL communicator ID", 0), (1, _SCHEMA, "Message size [bytes]", 8))
"""Rows of NVTX_PAYLOAD_SCHEMA_ENTRIES: domain, schema, field, offset."""


def describe_collective(args: Arguments) -> tuple[str, bytes] | None:
    """Return NCCL's call and its payload as nsys has it; None for a kernel of no collective.

    A process group has the same name and ranks on all of its ranks: their hash is the communicator.
    The size is NCCL's: what one rank receives of a reduce-scatter, and sends of any other call.
    """
    plain = args.collective.lower().replace("_", "")
    call = next((name for part, name in CALLS if part in plain), "")
    if not call or not (args.group or args.group_ranks):
        return None
    group = hashlib.sha256(f"{args.group}|{args.group_ranks}".encode()).digest()
    # 63 bits: SQLite's integers have a sign.
    communicator = int.from_bytes(group[:8], "little") >> 1
    elements = args.received_elements if call == "ncclReduceScatter" else args.sent_elements
    size = max(0, elements) * _SIZES.get(args.dtype.lower(), 1)
    payload = struct.pack("<QQ", communicator, min(size, 1 << 47))
    return call, struct.pack("<4Q", 1, _SCHEMA, len(payload), 32) + payload
