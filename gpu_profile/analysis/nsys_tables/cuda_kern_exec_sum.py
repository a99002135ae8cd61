"""nsys' table of kernels with the time of their launch, of the queue and of the kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.nsys_tables.launches import launched
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL, pid_of, tid_of
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.analysis.tables.labels import api_labels
from gpu_profile.analysis.tables.statistics import (
    Key,
    Samples,
    Summary,
    collect,
    distinct,
    pool,
    summaries,
)
from gpu_profile.analysis.tables.summary import GPU_BY, GROUPS, UNKNOWN_RANK, statistics
from gpu_profile.table import Cell, Column, Table

PHASES = "TAQK"  # total, API, queue, kernel
NOTHING: tuple[Cell, ...] = (None, None, None, None, 0.0)  # as nsys shows no queueing at all


@dataclass(frozen=True)
class Part:
    """Samples of each phase by (group,) pid, tid, device, API and kernel."""

    by: str
    phases: tuple[Samples, ...]


def _part(database: Database, scope: Scope) -> Part:
    columns = ("deviceId", "demangledName", *(("streamId",) if scope.by == "stream" else ()))
    ops = launched(database, (KERNEL,), columns, named=True)
    names = (ops["thread"], ops["deviceId"], ops["api"], ops["demangledName"])
    codes, found = distinct(*names, *(ops[name] for name in columns[2:]))
    keys = _keys(database, found, scope)
    queue = ops["start"] - ops["api_end"]
    queued = queue > 0
    phases = (
        collect(keys, codes, np.maximum(ops["end"], ops["api_end"]) - ops["api_start"]),
        collect(keys, codes, ops["api_end"] - ops["api_start"]),
        collect(keys, codes[queued], queue[queued]),
        collect(keys, codes, ops["end"] - ops["start"]),
    )
    return Part(scope.by, phases)


def _keys(database: Database, found: list[tuple[int, ...]], scope: Scope) -> list[Key]:
    calls = api_labels(database, [(row[2],) for row in found])
    kernels = database.names(np.array([row[3] for row in found], np.int64))
    threads = np.array([row[0] for row in found], np.int64)
    owners = zip(pid_of(threads).tolist(), tid_of(threads).tolist(), strict=True)
    keys: list[Key] = []
    for row, call, (pid, tid) in zip(found, calls, owners, strict=True):
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


def _merge(parts: Sequence[Part]) -> Table:
    by = parts[0].by if parts else ""
    phases = [pool(samples) for samples in zip(*(part.phases for part in parts), strict=True)]
    found = [{row.key: row for row in summaries(samples)} for samples in phases]
    total, *others = found or [{}]
    width = len(GROUPS[by])
    rows = sorted(total.values(), key=lambda row: (*row.key[:width], -row.mean, *row.key[width:]))
    cells = tuple(_cells([row, *(other.get(row.key) for other in others)]) for row in rows)
    return Table("cuda_kern_exec_sum", (*GROUPS[by], *COLUMNS), cells)


def _cells(phases: Sequence[Summary | None]) -> tuple[Cell, ...]:
    total, queue = phases[0], phases[2]
    assert total is not None
    *owner, call, kernel = total.key
    counts = (total.count, queue.count if queue else 0)
    numbers = [statistics(phase) if phase else NOTHING for phase in phases]
    return (*owner, *counts, *(cell for row in numbers for cell in row), call, kernel)


EXECUTION = Analysis("cuda_kern_exec_sum", _part, _merge, GPU_BY)
