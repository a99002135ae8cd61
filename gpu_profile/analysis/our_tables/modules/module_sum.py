"""Table module_sum: GPU time by module of the model, forward and backward."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_profile.analysis.activity.cached import activities_of, compute_share
from gpu_profile.analysis.modules.group_modules import Group, group_modules
from gpu_profile.analysis.modules.module_times import ModuleTime, RankModules, measure_modules
from gpu_profile.analysis.modules.owners import UNATTRIBUTED
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Cell, Column, Table

BY = ("module", "class", "line")
NO_MODULE = f"({UNATTRIBUTED})"
HINT = "no GPU time of modules in the report: record with --annotate modules, on a GPU"
TIMES = (
    Column("Calls"),
    *(Column(name, "ns") for name in ("GPU Time", "Forward", "Backward", "Accumulate")),
    *(Column(name, "ns") for name in ("Optimizer", "Communication", "Exposed Comm", "Idle")),
    Column("Share", "%"),
)
HEADS: Mapping[str, tuple[Column, ...]] = {
    "module": (Column("Module"), Column("Class"), Column("Line")),
    "class": (Column("Class"), Column("Modules")),
    "line": (Column("Line"), Column("Class"), Column("Modules")),
}


@dataclass(frozen=True)
class ModuleParts:
    """The modules of one report's ranks, and how the table shows them."""

    ranks: tuple[RankModules, ...]
    by: str = "module"
    depth: int = 0


def collect_modules(database: Database, scope: Scope) -> ModuleParts:
    """The modules of every rank in one report."""
    ranks = (measure_modules(activity) for activity in activities_of(database, scope))
    return ModuleParts(tuple(filter(None, ranks)), scope.by or "module", scope.depth)


def merge_modules(parts: Sequence[ModuleParts]) -> Table:
    """One row for each module over all ranks, of the steady steps, the most GPU time first.

    Each kernel counts for the innermost module only, so the GPU Times add up to the time of all
    kernels, collectives included. With a depth, deeper modules count for the one that holds them.
    Idle is the GPU's idle time while the host was in the module.
    """
    by, depth = (parts[0].by, parts[0].depth) if parts else ("module", 0)
    times = [time for part in parts for rank in part.ranks for time in rank.times]
    total = sum(time.kernel_time for time in times)
    groups = [group for group in group_modules(times, by, depth) if group.sums.is_worth_a_row]
    ordered = sorted(
        groups, key=lambda group: (group.name == NO_MODULE, -group.sums.kernel_time, group.name)
    )
    rows = [(*_make_head(by, group), *_make_cells(group.sums, total)) for group in ordered]
    return Table("module_sum", (*HEADS[by], *TIMES), tuple(rows), HINT)


def _make_head(by: str, group: Group) -> tuple[Cell, ...]:
    first = group.module
    if by == "module":
        return (group.name, group.remark or first.kind or None, first.place or None)
    count = len(group.members) if first.is_real else None
    remark = group.remark or first.kind or None
    return (group.name, count) if by == "class" else (group.name, remark, count)


def _make_cells(sums: ModuleTime, total: int) -> tuple[Cell, ...]:
    return (
        sums.calls or None,
        sums.kernel_time,
        *(value or None for value in (sums.forward, sums.backward, sums.accumulate)),
        *(value or None for value in (sums.optimizer, sums.communication, sums.exposed, sums.idle)),
        compute_share(sums.kernel_time, total),
    )


MODULE_SUM = Analysis(
    "module_sum",
    collect_modules,
    merge_modules,
    BY,
    doc="GPU time by module of the model. Needs --annotate modules",
)
