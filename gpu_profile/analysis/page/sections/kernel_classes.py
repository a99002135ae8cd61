"""The page's first chart: GPU time of each rank by class of kernel, without start-up."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, Activity
from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.load.operations import GRAPH_NAME
from gpu_profile.analysis.activity.start_up import find_start_up, steady_window
from gpu_profile.analysis.arrays.columns import encode_column, is_among
from gpu_profile.analysis.our_tables.gpu.kernel_class_sum import GRAPH_CLASS
from gpu_profile.analysis.page.charts import Bar, BarPart, draw_stacked
from gpu_profile.analysis.page.parts import (
    data_table,
    format_duration,
    name_bar,
    render_folded,
    render_section,
)
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.analysis.tables.kernel_class import classify_kernel
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Rank"),
    Column("Class"),
    Column("Instances"),
    Column("Total Time", "ns"),
    Column("In Start-up", "ns"),
)


@dataclass(frozen=True)
class _RankClasses:
    """(kernels, ns, ns in the start-up that is left out) of one rank by class."""

    rank: int
    sums: dict[str, tuple[int, int, int]]


def _collect(database: Database, scope: Scope) -> list[_RankClasses]:
    return [
        _RankClasses(activity.rank, _sum_classes(activity))
        for activity in activities_of(database, scope)
    ]


def _sum_classes(activity: Activity) -> dict[str, tuple[int, int, int]]:
    ops = activity.ops
    rows = np.flatnonzero(is_among(ops.kind, (COMPUTE, COMMUNICATION)))
    code, names = encode_column(ops.full_name[rows])
    first, last = steady_window(activity)
    steady = (ops.start[rows] >= first) & (ops.start[rows] < last)
    steady |= find_start_up(activity) is None
    weights = (steady.astype(float), ops.duration[rows] * steady, ops.duration[rows] * ~steady)
    sums = [np.bincount(code, weights=weight, minlength=len(names)) for weight in weights]
    classes: dict[str, tuple[int, int, int]] = {}
    for name, *values in zip(
        names.tolist(), *(np.rint(column).tolist() for column in sums), strict=True
    ):
        text = activity.names[name]
        kind = GRAPH_CLASS if text == GRAPH_NAME else classify_kernel(text)
        before = classes.get(kind, (0, 0, 0))
        classes[kind] = (
            before[0] + int(values[0]),
            before[1] + int(values[1]),
            before[2] + int(values[2]),
        )
    return classes


def _merge(parts: Sequence[list[_RankClasses]]) -> Table:
    """Rows by rank, the class with most time first; two GPUs of one rank are added."""
    sums: dict[int, dict[str, list[int]]] = {}
    for classes in (rank for part in parts for rank in part):
        for kind, values in classes.sums.items():
            total = sums.setdefault(classes.rank, {}).setdefault(kind, [0, 0, 0])
            total[:] = [a + b for a, b in zip(total, values, strict=True)]
    rows: list[tuple[Cell, ...]] = [
        (rank, kind, *values)
        for rank, kinds in sorted(sums.items())
        for kind, values in sorted(kinds.items(), key=lambda pair: (-pair[1][1], pair[0]))
    ]
    return Table("kernel_class_sum", COLUMNS, tuple(rows))


CLASSES_BY_RANK = Analysis("kernel_class_sum", _collect, _merge)


def draw_kernel_classes(table: Table, is_alone: bool = False) -> str:
    """One bar for each rank; its length is the rank's kernel time against the busiest rank's.

    The classes have the same order in all bars, the largest of the run first.
    """
    if not table.rows:
        return ""
    times: dict[str, dict[Cell, int]] = {}
    for rank, kind, ns in zip(*map(table.column, ("Rank", "Class", "Total Time")), strict=True):
        times.setdefault(str(kind), {})[rank] = int(ns or 0)
    order = sorted(times, key=lambda kind: (-sum(times[kind].values()), kind))
    bars = [
        _make_bar(name_bar(rank, is_alone), [(kind, times[kind].get(rank, 0)) for kind in order])
        for rank in dict.fromkeys(table.column("Rank"))
    ]
    intro = "Kernel time summed by what the kernels' names say they do."
    if not is_alone:
        intro += " Communication includes waiting for other ranks."
    left_out = sum(int(ns or 0) for ns in table.column("In Start-up"))
    title = "GPU time by kind of work"
    if left_out:
        title += ", without start-up"
        where = "" if is_alone else " on all ranks"
        intro += f" Kernels of the start-up, {format_duration(left_out)}{where}, are left out."
    longest = max(bar.total for bar in bars)
    numbers = render_folded("The same as a table", data_table(table, "Kernel time by class, in ns"))
    chart = draw_stacked(bars, longest)
    return render_section("classes", title, intro, chart, numbers)


def _make_bar(name: str, parts: list[tuple[str, int]]) -> Bar:
    bar_parts = (
        BarPart(f"k-{kind.replace(' ', '-').lower()}", kind, kind, ns) for kind, ns in parts
    )
    return Bar(name, tuple(bar_parts), format_duration(sum(ns for _, ns in parts)))
