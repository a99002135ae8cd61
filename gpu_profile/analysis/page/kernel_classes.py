"""The page's first chart: GPU time of each rank by class of kernel."""

from dataclasses import replace

from gpu_profile.analysis.our_tables.kernel_class_sum import KERNEL_CLASS_SUM
from gpu_profile.analysis.page.charts import Bar, BarPart, draw_stacked
from gpu_profile.analysis.page.parts import (
    data_table,
    format_duration,
    render_folded,
    render_section,
)
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.summary import Grouped
from gpu_profile.table import Cell, Table


def _by_rank(database: Database, scope: Scope) -> Grouped:
    samples: Grouped = KERNEL_CLASS_SUM.partial(database, replace(scope, by="rank"))
    return samples


CLASSES_BY_RANK = replace(KERNEL_CLASS_SUM, partial=_by_rank)


def kernel_classes(table: Table) -> str:
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
        _bar(rank, [(kind, times[kind].get(rank, 0)) for kind in order])
        for rank in dict.fromkeys(table.column("Rank"))
    ]
    intro = (
        "Kernel time summed by what the kernels' names say they do; communication includes "
        "waiting for other ranks."
    )
    longest = max(bar.total for bar in bars)
    numbers = render_folded("The same as a table", data_table(table, "Kernel time by class, in ns"))
    chart = draw_stacked(bars, longest)
    return render_section("classes", "GPU time by kind of work", intro, chart, numbers)


def _bar(rank: Cell, parts: list[tuple[str, int]]) -> Bar:
    shown = (BarPart(f"k-{kind.replace(' ', '-').lower()}", kind, kind, ns) for kind, ns in parts)
    return Bar(f"rank {rank}", tuple(shown), format_duration(sum(ns for _, ns in parts)))
