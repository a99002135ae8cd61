"""The shape of most of nsys' tables: one row for each name, with statistics of its durations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Columns, Database
from gpu_profile.analysis.store.schema import pid_of
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.analysis.tables.statistics import (
    Key,
    Samples,
    Summary,
    count_values,
    encode_rows,
    pool_samples,
    summarise_samples,
)
from gpu_profile.table import Cell, Column, Table

GROUPS: Mapping[str, tuple[Column, ...]] = {
    "": (),
    "rank": (Column("Rank"),),
    "device": (Column("Rank"), Column("Device")),
    "stream": (Column("Rank"), Column("Device"), Column("Stream")),
}
GPU_COLUMNS = ("globalPid", "deviceId", "streamId")  # the columns that GROUPS is computed from
HOST_COLUMNS = ("globalTid",)
HOST_BY = ("rank",)
GPU_BY = ("rank", "device", "stream")
UNKNOWN_RANK = -1


@dataclass(frozen=True)
class Grouped:
    """A partial result: samples whose keys begin with the group's cells (none without `by`)."""

    by: str
    samples: Samples


@dataclass(frozen=True)
class TableShape:
    """The columns of a table: share of the total, total, count, five statistics, then the key.

    `scale` multiplies the values (bytes are shown in MB). Rows with equal totals are sorted by
    key; with `fewer_first` by count and last column first, as nsys sorts kernels. `hint` is that of
    the Table.
    """

    title: str
    count: str
    key: tuple[Column, ...]
    total: str = "Total Time"
    unit: str = "ns"
    decimals: int = 1
    scale: float = 1
    fewer_first: bool = False
    hint: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        share = (Column("Time", "%"),) if self.unit == "ns" else ()
        names = ("Avg", "Med", "Min", "Max", "StdDev")
        statistics = (Column(name, self.unit, self.decimals) for name in names)
        total = Column(self.total, self.unit, self.decimals)
        return (*share, total, Column(self.count), *statistics, *self.key)


def list_needed(scope: Scope, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns (of GPU_COLUMNS or HOST_COLUMNS) to load for the scope's grouping."""
    return tuple(columns[: len(GROUPS[scope.by])])


def list_group_columns(rows: Columns, scope: Scope, columns: Sequence[str]) -> list[IntArray]:
    """The grouping columns of loaded rows: the rank, then device and stream as recorded."""
    columns_loaded = [rows[name] for name in list_needed(scope, columns)]
    if columns_loaded:
        columns_loaded[0] = ranks_of(pid_of(columns_loaded[0]), scope)
    return columns_loaded


def ranks_of(pids: IntArray, scope: Scope) -> IntArray:
    """Return the rank of each process id; UNKNOWN_RANK for others."""
    codes, pid_values = encode_rows(pids)
    ranks = [scope.ranks.get(pid, UNKNOWN_RANK) for (pid,) in pid_values]
    return np.array(ranks, np.int64)[codes]


def group_samples(
    rows: Columns,
    scope: Scope,
    value: IntArray,
    columns: Sequence[str],
    names: Sequence[IntArray],
    label: Callable[[list[tuple[int, ...]]], list[Key]],
) -> Grouped:
    """Samples of `value` by group and name; `label` turns combinations of names into key cells."""
    groups = list_group_columns(rows, scope, columns)
    codes, combinations = encode_rows(*groups, *names)
    cut = len(groups)
    labels = label([combination[cut:] for combination in combinations])
    keys: list[Key] = [
        (*combination[:cut], *cells)
        for combination, cells in zip(combinations, labels, strict=True)
    ]
    return Grouped(scope.by, count_values(keys, codes, value))


def count_table(
    database: Database,
    scope: Scope,
    table: str,
    names: Sequence[str],
    columns: Sequence[str],
    label: Callable[[list[tuple[int, ...]]], list[Key]],
    only: Mapping[str, Iterable[int]] | None = None,
) -> Grouped:
    """Samples of a table's durations by group and names, read in parts to save memory."""
    loaded_columns = ("end-start", *names, *list_needed(scope, columns))
    parts = [
        group_samples(
            rows, scope, rows["end-start"], columns, [rows[name] for name in names], label
        )
        for rows in database.parts(table, *loaded_columns, only=only)
    ]
    if len(parts) == 1:
        return parts[0]
    return Grouped(scope.by, pool_samples(part.samples for part in parts))


def merge_summary(shape: TableShape, parts: Sequence[Grouped]) -> Table:
    """The table of all parts: the longest total first, within each group if there are groups."""
    by = parts[0].by if parts else ""
    rows = summarise_samples(pool_samples(part.samples for part in parts))
    width = len(GROUPS[by])
    totals: dict[Key, int] = {}
    for row in rows:
        totals[row.key[:width]] = totals.get(row.key[:width], 0) + row.total
    ordered = sorted(rows, key=lambda row: _sort_key(shape, row, width))
    cells = (
        (*row.key[:width], *_build_cells(shape, row, totals[row.key[:width]]), *row.key[width:])
        for row in ordered
    )
    return Table(shape.title, (*GROUPS[by], *shape.columns), tuple(cells), shape.hint)


def _sort_key(shape: TableShape, row: Summary, width: int) -> tuple[Cell | tuple[str, ...], ...]:
    before = (row.count, str(row.key[-1])) if shape.fewer_first else ()
    return (*row.key[:width], -row.total, *before, tuple(map(str, row.key[width:])))


def _build_cells(shape: TableShape, row: Summary, total: int) -> Iterable[Cell]:
    if shape.unit == "ns":
        share = 100 * row.total / total if total else 0.0
        return (share, row.total, row.count, *compute_statistics(row))
    numbers = (row.mean, row.median, row.minimum, row.maximum, row.stdev)
    return (row.total * shape.scale, row.count, *(number * shape.scale for number in numbers))


def compute_statistics(row: Summary) -> tuple[float, float, int, int, float]:
    """Avg, Med, Min, Max, StdDev."""
    return row.mean, row.median, row.minimum, row.maximum, row.stdev


def make_summary(
    shape: TableShape, part: Callable[[Database, Scope], Grouped], by: tuple[str, ...], doc: str
) -> Analysis:
    """Return the table with a row for each name and statistics of its durations (ns)."""
    return Analysis(shape.title, part, partial(merge_summary, shape), by, doc)


def merge_sources(
    parts: Sequence[Callable[[Database, Scope], Grouped]], database: Database, scope: Scope
) -> Grouped:
    """The samples of several sources as one partial result."""
    samples = [part(database, scope).samples for part in parts]
    return Grouped(scope.by, pool_samples(samples))
