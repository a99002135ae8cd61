"""nsys' trace of GPU operations, one row each."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.nsys_tables.cuda.cuda_gpu_kern_gb_sum import GRID_AND_BLOCK
from gpu_profile.analysis.store.cells import integer, text
from gpu_profile.analysis.store.database import Columns, Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import KERNEL, MEMCPY, MEMSET, pid_of
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.analysis.tables.labels import SET_LABEL, copy_label, memory_kind
from gpu_profile.analysis.tables.summary import GPU_BY, GROUPS, UNKNOWN_RANK
from gpu_profile.table import Cell, Column, Table

COMMON = (
    "start",
    "end",
    "correlationId",
    "deviceId",
    "contextId",
    "greenContextId?",
    "streamId",
    "globalPid",
)
Row = tuple[Cell, ...]
Cells = list[Sequence[Cell]]


@dataclass(frozen=True)
class TracePart:
    by: str
    rows: list[Row]


COLUMNS = (
    Column("Start", "ns"),
    Column("Duration", "ns"),
    *map(Column, ("CorrId", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ", "Reg/Trd")),
    Column("StcSMem", "MB", 3),
    Column("DymSMem", "MB", 3),
    Column("Bytes", "MB", 3),
    Column("Throughput", "MB/s", 3),
    *map(Column, ("SrcMemKd", "DstMemKd", "Device", "Ctx", "GreenCtx", "Strm", "Name")),
)


def _load_part(database: Database, scope: Scope) -> TracePart:
    rows: list[Row] = []
    for table, load_rows in ((KERNEL, _load_kernels), (MEMCPY, _load_copies), (MEMSET, _load_sets)):
        rows += load_rows(database, scope, _load_devices(database)) if database.has(table) else []
    rows.sort(key=itemgetter(len(GROUPS[scope.by])))  # the start
    return TracePart(scope.by, rows)


def _load_kernels(
    database: Database, scope: Scope, devices: dict[tuple[int, int], str]
) -> list[Row]:
    columns = ("registersPerThread", "staticSharedMemory", "dynamicSharedMemory", "demangledName")
    rows = database.load(KERNEL, *COMMON, *GRID_AND_BLOCK, *columns, sort=False)
    names = database.names(rows["demangledName"])
    launch = [rows[name].tolist() for name in (*GRID_AND_BLOCK, columns[0])]
    shared = [_convert_to_megabytes(rows[name]) for name in columns[1:3]]
    empty: Cells = [[None] * len(rows["start"])] * 4
    texts = [names[name] for name in rows["demangledName"].tolist()]
    return _build_rows(rows, scope, devices, [*launch, *shared, *empty], texts)


def _load_copies(
    database: Database, scope: Scope, devices: dict[tuple[int, int], str]
) -> list[Row]:
    rows = database.load(MEMCPY, *COMMON, "bytes", "copyKind", "srcKind", "dstKind", sort=False)
    kinds = [[memory_kind(kind) for kind in rows[name].tolist()] for name in ("srcKind", "dstKind")]
    texts = [copy_label(kind) for kind in rows["copyKind"].tolist()]
    return _build_rows(rows, scope, devices, [*_compute_throughput(rows), *kinds], texts)


def _load_sets(database: Database, scope: Scope, devices: dict[tuple[int, int], str]) -> list[Row]:
    rows = database.load(MEMSET, *COMMON, "bytes", "memKind", sort=False)
    kinds: Cells = [[memory_kind(kind) for kind in rows["memKind"].tolist()]]
    nothing: Cells = [[None] * len(rows["start"])]
    texts = [SET_LABEL] * len(rows["start"])
    return _build_rows(rows, scope, devices, [*_compute_throughput(rows), *kinds, *nothing], texts)


def _compute_throughput(rows: Columns) -> Cells:
    """Empty launch columns, then size and throughput in MB/s.

    nsys rounds 1e9 / duration down to a whole number before it multiplies by the size.
    """
    duration = rows["end"] - rows["start"]
    speed = 10**9 // np.maximum(duration, 1) * rows["bytes"] / 1e6
    timed = zip(speed.tolist(), duration.tolist(), strict=True)
    speeds: Sequence[Cell] = [value if time > 0 else None for value, time in timed]
    launch: Cells = [[None] * len(duration)] * 9
    return [*launch, _convert_to_megabytes(rows["bytes"]), speeds]


def _convert_to_megabytes(values: IntArray) -> Sequence[Cell]:
    cells: Sequence[Cell] = (values / 1e6).tolist()
    return cells


def _build_rows(
    rows: Columns,
    scope: Scope,
    devices: dict[tuple[int, int], str],
    cells: Cells,
    names: Sequence[Cell],
) -> list[Row]:
    pids, device = pid_of(rows["globalPid"]).tolist(), rows["deviceId"].tolist()
    labels = [devices.get(pair, f"({pair[1]})") for pair in zip(pids, device, strict=True)]
    times = ((rows["start"] + scope.offset_ns).tolist(), (rows["end"] - rows["start"]).tolist())
    green = np.maximum(rows["greenContextId"], 0)
    greens: Sequence[Cell] = [context or None for context in green.tolist()]
    ids = (rows["contextId"].tolist(), greens, rows["streamId"].tolist())
    groups = ([scope.ranks.get(pid, UNKNOWN_RANK) for pid in pids], device, ids[2])
    columns: Cells = [
        *groups[: len(GROUPS[scope.by])],
        *times,
        rows["correlationId"].tolist(),
        *cells,
        labels,
        *ids,
        names,
    ]
    return list(zip(*columns, strict=True))


def _load_devices(database: Database) -> dict[tuple[int, int], str]:
    """Device labels such as "NVIDIA H200 (0)" by (pid, CUDA device number).

    CUDA_VISIBLE_DEVICES can renumber the devices in each process.
    """
    names = dict(read_records(database, "TARGET_INFO_GPU", integer("id"), text("name")))
    columns = integer("gpuId"), integer("cudaId"), integer("pid")
    devices = read_records(database, "TARGET_INFO_CUDA_DEVICE", *columns)
    return {(pid, cuda): f"{names.get(gpu, 'GPU')} ({cuda})" for gpu, cuda, pid in devices}


def _merge_parts(parts: Sequence[TracePart]) -> Table:
    by = parts[0].by if parts else ""
    rows = tuple(row for part in parts for row in part.rows)
    return Table("cuda_gpu_trace", (*GROUPS[by], *COLUMNS), rows)


CUDA_GPU_TRACE = Analysis(
    "cuda_gpu_trace", _load_part, _merge_parts, GPU_BY, "GPU operations, a row each"
)
