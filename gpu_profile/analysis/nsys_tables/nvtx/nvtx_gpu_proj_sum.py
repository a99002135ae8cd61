"""nsys' table of NVTX ranges by the GPU time launched in them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.nsys_tables.shared.projection import project_ranges
from gpu_profile.analysis.nsys_tables.shared.range_rows import STYLES
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import pid_of
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.analysis.tables.statistics import (
    Key,
    Samples,
    count_values,
    encode_rows,
    pool_samples,
    summarise_samples,
)
from gpu_profile.analysis.tables.summary import GROUPS, HOST_BY, compute_statistics, ranks_of
from gpu_profile.table import Column, Table


@dataclass(frozen=True)
class SumPart:
    """Projected durations by (rank,) range and style.

    `sums`, by the same keys: original durations (ns), operations, levels, children.
    """

    by: str
    samples: Samples
    sums: dict[Key, tuple[int, ...]]


def _sum_part(database: Database, scope: Scope) -> SumPart:
    ranges, projected = project_ranges(database)
    index = projected.index
    groups = [ranks_of(pid_of(ranges.thread[index]), scope)] if scope.by else []
    codes, combinations = encode_rows(*groups, ranges.name[index], ranges.style[index])
    keys: list[Key] = [
        (*group, ranges.names[name], STYLES[style]) for *group, name, style in combinations
    ]
    samples = count_values(keys, codes, projected.end - projected.start)
    original = ranges.end[index] - ranges.start[index]
    columns = (original, projected.count, projected.level, projected.children)
    return SumPart(scope.by, samples, _sum_by_key(keys, codes, columns))


def _sum_by_key(
    keys: Sequence[Key], codes: IntArray, columns: Sequence[IntArray]
) -> dict[Key, tuple[int, ...]]:
    totals = [np.zeros(len(keys), np.int64) for _ in columns]
    for total, column in zip(totals, columns, strict=True):
        np.add.at(total, codes, column)
    sums: dict[Key, tuple[int, ...]] = {}
    for key, *row in zip(keys, *(total.tolist() for total in totals), strict=True):
        sums[key] = _add_sums(sums.get(key), tuple(row))
    return sums


def _add_sums(first: tuple[int, ...] | None, more: tuple[int, ...]) -> tuple[int, ...]:
    return more if first is None else tuple(a + b for a, b in zip(first, more, strict=True))


SUM_COLUMNS = (
    Column("Range"),
    Column("Style"),
    Column("Total Proj Time", "ns"),
    Column("Total Range Time", "ns"),
    Column("Range Instances"),
    *(Column(f"Proj {name}", "ns") for name in ("Avg", "Med", "Min", "Max", "StdDev")),
    Column("Total GPU Ops"),
    Column("Avg GPU Ops"),
    Column("Avg Range Lvl"),
    Column("Avg Num Child"),
)


def _sum_merge(parts: Sequence[SumPart]) -> Table:
    by = parts[0].by if parts else ""
    sums: dict[Key, tuple[int, ...]] = {}
    for part in parts:
        for key, more in part.sums.items():
            sums[key] = _add_sums(sums.get(key), more)
    width = len(GROUPS[by])
    table_rows = sorted(
        summarise_samples(pool_samples(part.samples for part in parts)),
        key=lambda row: (*row.key[:width], -row.total, *row.key[width:]),
    )
    rows = []
    for row in table_rows:
        original, ops, levels, children = sums[row.key]
        means = (ops / row.count, levels / row.count, children / row.count)
        rows.append(
            (*row.key, row.total, original, row.count, *compute_statistics(row), ops, *means)
        )
    return Table("nvtx_gpu_proj_sum", (*GROUPS[by], *SUM_COLUMNS), tuple(rows))


NVTX_GPU_PROJ_SUM = Analysis(
    "nvtx_gpu_proj_sum",
    _sum_part,
    _sum_merge,
    HOST_BY,
    "NVTX ranges by the GPU time launched in them",
)
