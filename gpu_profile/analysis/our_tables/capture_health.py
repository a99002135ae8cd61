"""Table capture_health: lost events and profiler overhead of each rank."""

from collections.abc import Sequence

from gpu_profile.analysis.activity.cached import activities_of, compute_share
from gpu_profile.analysis.activity.health import Health, ReportHealth, report_health
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Report"),
    Column("Rank"),
    Column("GPU Ops"),
    Column("Without Call"),
    Column("Launches"),
    Column("Without Kernel"),
    Column("Profiler Overhead", "ns"),
    Column("Overhead", "%"),
    Column("Warnings"),
    Column("Losses"),
)


def collect_health(database: Database, scope: Scope) -> ReportHealth:
    """Return what the capture of one report lost."""
    return report_health(database, activities_of(database, scope))


def merge_health(parts: Sequence[ReportHealth]) -> Table:
    """One row for each rank, with what its capture lost.

    Without Call: operations whose launch is not in the report. Without Kernel: launches whose
    kernel is not. Losses: what the tables lack beyond a window's edges, and nsys' diagnostics about
    lost events. A report without GPU work has one row without a rank.
    """
    rows = [
        row for part in sorted(parts, key=lambda part: part.report) for row in _build_rows(part)
    ]
    return Table("capture_health", COLUMNS, tuple(rows))


def _build_rows(part: ReportHealth) -> list[tuple[Cell, ...]]:
    if not part.ranks:
        losses = "; ".join(part.losses) or None
        return [(part.report, None, 0, 0, 0, 0, None, None, part.warnings, losses)]
    return [
        (
            *_list_numbers(rank),
            part.warnings,
            "; ".join((*rank.list_losses(), *part.losses)) or None,
        )
        for rank in part.ranks
    ]


def _list_numbers(rank: Health) -> tuple[Cell, ...]:
    counts = (rank.operations, rank.orphans, rank.launches, rank.unseen_launches)
    return (rank.report, rank.rank, *counts, rank.overhead, compute_share(rank.overhead, rank.span))


CAPTURE_HEALTH = Analysis(
    "capture_health",
    collect_health,
    merge_health,
    doc="lost events and the profiler's overhead: whether the recording can be trusted",
)
