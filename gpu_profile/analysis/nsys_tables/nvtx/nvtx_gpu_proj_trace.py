"""nsys' table of NVTX ranges with the GPU operations launched in them, a row each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.nsys_tables.shared.projection import Projection, project_ranges
from gpu_profile.analysis.nsys_tables.shared.range_rows import STYLES, NvtxRanges
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import pid_of, tid_of
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.analysis.tables.summary import GROUPS, HOST_BY
from gpu_profile.table import Cell, Column, Table

Row = tuple[Cell, ...]


@dataclass(frozen=True)
class TracePart:
    by: str
    rows: list[Row]


TRACE_COLUMNS = (
    Column("Name"),
    Column("Projected Start", "ns"),
    Column("Projected Duration", "ns"),
    Column("Orig Start", "ns"),
    Column("Orig Duration", "ns"),
    *map(Column, ("Style", "PID", "TID", "NumGPUOps", "Lvl", "NumChild", "RangeId", "ParentId")),
    Column("RangeStack"),
)


def _trace_part(database: Database, scope: Scope) -> TracePart:
    ranges, projection = project_ranges(database)
    rows = _trace_rows(ranges, projection, scope)
    if scope.by:
        pids = pid_of(ranges.thread[projection.index]).tolist()
        rows = [(scope.ranks.get(pid, -1), *row) for pid, row in zip(pids, rows, strict=True)]
    return TracePart(scope.by, rows)


def _trace_rows(ranges: NvtxRanges, projection: Projection, scope: Scope) -> list[Row]:
    index = projection.index
    names = [ranges.names[name] for name in ranges.name[index].tolist()]
    styles = [STYLES[style] for style in ranges.style[index].tolist()]
    before = (projection.start + scope.offset_ns, projection.end - projection.start)
    original = (ranges.start[index] + scope.offset_ns, ranges.end[index] - ranges.start[index])
    thread = ranges.thread[index]
    counts = (projection.count, projection.level, projection.children, ranges.row[index])
    stacks = _format_stacks(ranges, projection)
    parents = [stack.split(":")[-2] for stack in stacks]
    numbers = [column.tolist() for column in (*before, *original)]
    tail = [column.tolist() for column in (pid_of(thread), tid_of(thread), *counts)]
    ids = [int(parent) if parent else None for parent in parents]
    return list(zip(names, *numbers, styles, *tail, ids, stacks, strict=True))


def _format_stacks(ranges: NvtxRanges, projection: Projection) -> list[str]:
    """For each range ":5:6": the ids of the enclosing ranges, outermost first, then its own."""
    chain: dict[int, str] = {}
    order = np.argsort(projection.level, kind="stable")
    for place in order.tolist():
        index, parent = int(projection.index[place]), int(projection.parent[place])
        chain[index] = f"{chain.get(parent, '')}:{ranges.row[index]}"
    return [chain[index] for index in projection.index.tolist()]


def _trace_merge(parts: Sequence[TracePart]) -> Table:
    by = parts[0].by if parts else ""
    rows = tuple(row for part in parts for row in part.rows)
    return Table("nvtx_gpu_proj_trace", (*GROUPS[by], *TRACE_COLUMNS), rows)


NVTX_GPU_PROJ_TRACE = Analysis(
    "nvtx_gpu_proj_trace",
    _trace_part,
    _trace_merge,
    HOST_BY,
    "NVTX ranges with the GPU operations launched in them, a row each",
)
