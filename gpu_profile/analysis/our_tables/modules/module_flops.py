"""Table module_flops: model FLOPs, TFLOP/s and MFU by module, kernel class, and step."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpu_profile.analysis.activity.cached import activities_of, compute_share
from gpu_profile.analysis.modules.efficiency import FlopSum, RankFlops, measure_flops
from gpu_profile.analysis.modules.flop_calls import NO_MODULE, PASSES, RECOMPUTED
from gpu_profile.analysis.modules.group_modules import find_holder, name_group
from gpu_profile.analysis.modules.marks import Module
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Cell, Column, Table

BY = ("module", "class", "line", "kernel")
HEADS: Mapping[str, str] = {
    "module": "Module",
    "class": "Class",
    "line": "Line",
    "kernel": "Kernel Class",
}
COLUMNS = (
    *(Column(name, "TFLOP", 3) for name in ("Forward", "Backward", "Recomputed")),
    Column("Time", "ns"),
    Column("Share", "%"),
    Column("Rate", "TFLOP/s"),
    Column("Format"),
    Column("Peak", "TFLOP/s"),
    Column("MFU", "%"),
)
STEP = "(step, as recorded)"
UNKNOWN = "(unknown FLOPs)"
HINT = "the report has no shapes of operators: record with --annotate ops"


@dataclass(frozen=True)
class FlopParts:
    """The FLOPs of one report's ranks, and how the table shows them."""

    ranks: tuple[RankFlops, ...]
    by: str = "module"
    depth: int = 0


@dataclass
class _Row:
    """The sums of a row: FLOPs by pass, ns of kernels, ns at the GPU's peak, FLOPs by format."""

    flops: dict[str, int]
    formats: dict[str, int]
    time: int = 0
    ideal: float = 0.0
    has_peak: bool = True

    def add(self, rank: RankFlops, flop_sum: FlopSum) -> None:
        self.flops[flop_sum.work] = self.flops.get(flop_sum.work, 0) + flop_sum.flops
        form = flop_sum.format or rank.usual_format
        self.formats[form] = self.formats.get(form, 0) + flop_sum.flops
        if flop_sum.work != RECOMPUTED:
            ideal = rank.ideal_ns(flop_sum)
            self.has_peak &= ideal is not None
            self.ideal += ideal or 0.0

    @property
    def model_flops(self) -> int:
        return sum(flops for work, flops in self.flops.items() if work != RECOMPUTED)


def collect_flops(database: Database, scope: Scope) -> FlopParts:
    """The FLOPs of every rank in one report."""
    ranks = (measure_flops(activity) for activity in activities_of(database, scope))
    return FlopParts(tuple(filter(None, ranks)), scope.by or "module", scope.depth)


def merge_flops(parts: Sequence[FlopParts]) -> Table:
    """One row for each module (or class, line, class of kernels) that multiplies matrices, over
    all ranks in the steady steps, and one for the steps.

    Time is that of the row's compute kernels; of the steps their own, which recording shapes
    slows. Share is the part of all compute kernels' time. Rate is the model's FLOPs (forward and
    backward) by that time, MFU the part of the time that they take at the GPU's peak. Kernels that
    multiply matrices, of which no recorded shape tells the FLOPs, are one row, UNKNOWN.
    """
    by, depth = (parts[0].by, parts[0].depth) if parts else ("module", 0)
    ranks = [rank for part in parts for rank in part.ranks]
    rows: dict[str, _Row] = {}
    for rank in ranks:
        for name, flop_sum in _name_sums(rank, by, depth):
            rows.setdefault(name, _Row({}, {})).add(rank, flop_sum)
        for name, time in _name_times(rank, by, depth):
            if name in rows:
                rows[name].time += time
    ordered = sorted(rows, key=lambda name: (name == NO_MODULE.name, -rows[name].model_flops, name))
    total = sum(rank.kernel_time for rank in ranks)
    unknown = _Row({}, {}, sum(rank.unknown for rank in ranks))
    cells = [(name, *_make_cells(rows[name], total)) for name in ordered]
    cells += [(UNKNOWN, *_make_cells(unknown, total))] if unknown.time else []
    cells += [(STEP, *_make_cells(_sum_steps(ranks)))] if any(rank.span for rank in ranks) else []
    return Table("module_flops", (Column(HEADS[by]), *COLUMNS), tuple(cells), HINT)


def _name_sums(rank: RankFlops, by: str, depth: int) -> Iterator[tuple[str, FlopSum]]:
    module_by_name = _find_modules(rank)
    for flop_sum in rank.sums:
        if by == "kernel":
            name = flop_sum.kernel_class
        else:
            name = _name(flop_sum.module, by, depth, module_by_name)
        yield name, flop_sum


def _name_times(rank: RankFlops, by: str, depth: int) -> Iterator[tuple[str, int]]:
    if by == "kernel":
        yield from rank.by_class.items()
        return
    module_by_name = _find_modules(rank)
    for module, time in rank.by_module.items():
        yield _name(module, by, depth, module_by_name), time


def _find_modules(rank: RankFlops) -> dict[str, Module]:
    return {module.name: module for module in rank.by_module}


def _name(module: Module, by: str, depth: int, module_by_name: Mapping[str, Module]) -> str:
    return name_group(find_holder(module, depth, module_by_name), by)


def _sum_steps(ranks: Sequence[RankFlops]) -> _Row:
    row = _Row({}, {})
    for rank in ranks:
        row.time += rank.span
        for flop_sum in rank.sums:
            row.add(rank, flop_sum)
    return row


def _make_cells(row: _Row, total: int = 0) -> tuple[Cell, ...]:
    """The cells of a row; `total` is the time of all compute kernels, 0 for the row of steps."""
    flops = (row.flops.get(work) for work in PASSES)
    rate = row.model_flops / row.time / 1e3 if row.time and row.flops else None
    has_rate = row.has_peak and row.ideal > 0
    return (
        *(None if value is None else value / 1e12 for value in flops),
        row.time or None,
        compute_share(row.time, total) if total else None,
        rate,
        max(row.formats, key=lambda name: (row.formats[name], name), default="") or None,
        row.model_flops / row.ideal / 1e3 if has_rate else None,
        compute_share(row.ideal, row.time) if has_rate else None,
    )


MODULE_FLOPS = Analysis(
    "module_flops",
    collect_flops,
    merge_flops,
    BY,
    "FLOPs, TFLOP/s and MFU by module, class of kernel and step. Needs --annotate ops",
    claims="derived: FLOPs, from the shapes of the operations; the times are measured",
)
