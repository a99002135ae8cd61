"""GPU memory that each process reserved, over time (nsys --cuda-memory-usage)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Columns, Database
from gpu_profile.analysis.tables.labels import memory_kind

MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
ALLOCATED, FREED = 0, 1
# Values of nsys' table ENUM_CUDA_MEM_KIND: device, array, managed, and two kinds of static memory
# of loaded modules.
ON_DEVICE = (2, 3, 4, 5, 6)


@dataclass(frozen=True, eq=False)
class Reserved:
    """Reserved memory of one process (a globalPid), device and kind: `bytes` from each `time` (ns)
    on.
    """

    process: int
    device: int
    kind: str
    time: IntArray
    bytes: IntArray
    allocations: int
    frees: int


def load_reserved(database: Database) -> list[Reserved]:
    """The memory curves of a report, by process, device and kind.

    Memory reserved before the recording is unknown, so each curve is raised until it never falls
    below 0.
    """
    columns = ("start", "globalPid", "deviceId", "bytes", "memKind", "memoryOperationType")
    rows = database.load(MEMORY, *columns, sort=False)
    rows = {name: values[np.argsort(rows["start"], kind="stable")] for name, values in rows.items()}
    return list(_curves(rows))


def _curves(rows: Columns) -> Iterator[Reserved]:
    for process in list_distinct(rows["globalPid"]):
        for device in list_distinct(rows["deviceId"][rows["globalPid"] == process]):
            of_device = (rows["globalPid"] == process) & (rows["deviceId"] == device)
            for kind in list_distinct(rows["memKind"][of_device]):
                chosen = np.flatnonzero(of_device & (rows["memKind"] == kind))
                what = rows["memoryOperationType"][chosen]
                sign = np.where(what == ALLOCATED, 1, np.where(what == FREED, -1, 0))
                level = np.cumsum(sign * rows["bytes"][chosen])
                # What was reserved before the recording is freed in it: the curve would fall below
                # 0.
                level -= min(0, int(level.min()))
                counts = int((what == ALLOCATED).sum()), int((what == FREED).sum())
                time = rows["start"][chosen]
                yield Reserved(process, device, memory_kind(kind), time, level, *counts)


def on_device(database: Database, process: int, device: int) -> tuple[IntArray, IntArray]:
    """(times, bytes) of all memory that one process reserved on one device."""
    columns = ("start", "globalPid", "deviceId", "bytes", "memKind", "memoryOperationType")
    rows = database.load(MEMORY, *columns, sort=False)
    chosen = (rows["globalPid"] == process) & (rows["deviceId"] == device)
    chosen &= is_among(rows["memKind"], ON_DEVICE)
    if not chosen.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows = {name: values[chosen] for name, values in rows.items()}
    rows["memKind"] = np.zeros_like(rows["memKind"])
    rows = {name: values[np.argsort(rows["start"], kind="stable")] for name, values in rows.items()}
    (curve,) = _curves(rows)
    return curve.time, curve.bytes
