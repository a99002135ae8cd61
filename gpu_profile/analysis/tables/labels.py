"""The texts of nsys' name ids, as nsys' tables print them."""

import re
from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.statistics import Key

# cudaLaunchKernel_v7000 is printed without its version. A version of five digits stays, because
# nsys keeps it too.
API_VERSION = re.compile(r"_v.{4}$")

# The texts of ENUM_CUDA_MEMCPY_OPER, for exports without that table.
COPIES = (
    "Unknown",
    "Host-to-Device",
    "Device-to-Host",
    "Host-to-Array",
    "Array-to-Host",
    "Array-to-Array",
    "Array-to-Device",
    "Device-to-Array",
    "Device-to-Device",
    "Host-to-Host",
    "Peer-to-Peer",
    "Unified Host-to-Device",
    "Unified Device-to-Host",
    "Unified Device-to-Device",
)


def label_ids(database: Database, ids: Sequence[tuple[int, ...]]) -> list[Key]:
    """The text of each id, as keys of one cell."""
    texts = database.names(np.array([name for (name,) in ids], np.int64))
    return [(texts[name],) for (name,) in ids]


def api_labels(database: Database, ids: Sequence[tuple[int, ...]]) -> list[Key]:
    """The name of each API function, as nsys prints it."""
    return [(API_VERSION.sub("", str(text)),) for (text,) in label_ids(database, ids)]


def copy_label(kind: int) -> str:
    """Return nsys' name of a copy, by CUPTI's copyKind; unknown kinds are nsys' "Unknown"."""
    name = COPIES[kind] if 0 <= kind < len(COPIES) else COPIES[0]
    return f"[CUDA memcpy {name}]"


SET_LABEL = "[CUDA memset]"

# The texts of ENUM_CUDA_MEM_KIND.
MEMORY_KINDS = (
    "Pageable",
    "Pinned",
    "Device",
    "Array",
    "Managed",
    "Device Static",
    "Managed Static",
    "Unknown",
)


def memory_kind(kind: int) -> str:
    """Return nsys' name of a kind of memory, by CUPTI's memKind."""
    return MEMORY_KINDS[kind] if 0 <= kind < len(MEMORY_KINDS) else MEMORY_KINDS[-1]
