"""Table toy_sum: kernels of each rank, counted."""

from collections.abc import Sequence

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Column, Table


def _collect(database: Database, scope: Scope) -> list[tuple[int, int]]:
    return [(activity.rank, len(activity.ops.start)) for activity in activities_of(database, scope)]


def _merge(parts: Sequence[list[tuple[int, int]]]) -> Table:
    rows = tuple(sorted(row for part in parts for row in part))
    return Table("toy_sum", (Column("Rank"), Column("Operations")), rows)


TOY_SUM = Analysis("toy_sum", _collect, _merge, doc="GPU operations of each rank, counted")
