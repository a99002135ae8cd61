"""nsys' table of kernels with the time of their launch, of the queue and of the kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.nsys_tables.shared.launches import load_launched
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL, pid_of, tid_of
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.analysis.tables.labels import api_labels
from gpu_profile.analysis.tables.statistics import (
    Key,
    Samples,
    Summary,
    count_values,
    encode_rows,
    pool_samples,
    summarise_samples,
)
from gpu_profile.analysis.tables.summary import GPU_BY, GROUPS, UNKNOWN_RANK, compute_statistics
from gpu_profile.table import Cell, Column, Table

PHASES = "TAQK"  # total, API, queue, kernel
# nsys prints these cells where no kernel was queued
NOTHING: tuple[Cell, ...] = (None, None, None, None, 0.0)


@dataclass(frozen=True)
class ExecutionPart:
    """Samples of each phase by (group,) pid, tid, device, API name and kernel name."""

    by: str
    phases: tuple[Samples, ...]


def _load_part(database: Database, scope: Scope) -> ExecutionPart:
    columns = ["deviceId", "demangledName"]
    if scope.by == "stream":
        columns.append("streamId")
    ops = load_launched(database, (KERNEL,), columns, with_api=True)
    names = (ops["thread"], ops["deviceId"], ops["api"], ops["demangledName"])
    codes, combinations = encode_rows(*names, *(ops[name] for name in columns[2:]))
    keys = _build_keys(database, combinations, scope)
    queue = ops["start"] - ops["api_end"]
    queued = queue > 0
    phases = (
        count_values(keys, codes, np.maximum(ops["end"], ops["api_end"]) - ops["api_start"]),
        count_values(keys, codes, ops["api_end"] - ops["api_start"]),
        count_values(keys, codes[queued], queue[queued]),
        count_values(keys, codes, ops["end"] - ops["start"]),
    )
    return ExecutionPart(scope.by, phases)


def _build_keys(database: Database, combinations: list[tuple[int, ...]], scope: Scope) -> list[Key]:
    calls = api_labels(database, [(row[2],) for row in combinations])
    kernels = database.names(np.array([row[3] for row in combinations], np.int64))
    threads = np.array([row[0] for row in combinations], np.int64)
    owners = zip(pid_of(threads).tolist(), tid_of(threads).tolist(), strict=True)
    keys: list[Key] = []
    for row, call, (pid, tid) in zip(combinations, calls, owners, strict=True):
        rank = scope.ranks.get(pid, UNKNOWN_RANK)
        group = (rank, row[1], *row[4:])[: len(GROUPS[scope.by])]
        keys.append((*group, pid, tid, row[1], *call, kernels[row[3]]))
    return keys


COLUMNS = (
    *map(Column, ("PID", "TID", "DevId", "Count", "QCount")),
    *(
        Column(f"{phase}{name}", "ns")
        for phase in PHASES
        for name in ("Avg", "Med", "Min", "Max", "StdDev")
    ),
    Column("API Name"),
    Column("Kernel Name"),
)


def _merge_parts(parts: Sequence[ExecutionPart]) -> Table:
    by = parts[0].by if parts else ""
    phases = [
        pool_samples(samples) for samples in zip(*(part.phases for part in parts), strict=True)
    ]
    rows_by_phase = [{row.key: row for row in summarise_samples(samples)} for samples in phases]
    total, *others = rows_by_phase or [{}]
    width = len(GROUPS[by])
    rows = sorted(total.values(), key=lambda row: (*row.key[:width], -row.mean, *row.key[width:]))
    cells = tuple(_format_cells(row, *(other.get(row.key) for other in others)) for row in rows)
    return Table("cuda_kern_exec_sum", (*GROUPS[by], *COLUMNS), cells)


def _format_cells(
    total: Summary, call_time: Summary | None, queue: Summary | None, kernel_time: Summary | None
) -> tuple[Cell, ...]:
    *owner, call, kernel = total.key
    counts = (total.count, queue.count if queue else 0)
    phases = (total, call_time, queue, kernel_time)
    numbers = [compute_statistics(phase) if phase else NOTHING for phase in phases]
    return (*owner, *counts, *(cell for row in numbers for cell in row), call, kernel)


CUDA_KERN_EXEC_SUM = Analysis(
    "cuda_kern_exec_sum",
    _load_part,
    _merge_parts,
    GPU_BY,
    "time of a kernel's launch, of the queue and of the kernel",
)
