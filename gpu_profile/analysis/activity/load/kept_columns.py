"""The columns that many analyses of a report read, decoded once and kept."""

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.load.operations import BLOCK, COMMON, GRID, KERNEL_COLUMNS
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL, MEMCPY, MEMSET, RUNTIME
from gpu_profile.analysis.tables.analysis import Scope

_KEPT = {
    KERNEL: KERNEL_COLUMNS,
    RUNTIME: ("start", "end", "globalTid", "correlationId", "nameId"),
    MEMCPY: (*COMMON, "bytes", "copyKind", "srcKind", "dstKind"),
    MEMSET: (*COMMON, "bytes"),
}
# Those of them that only the activities need: 107 of 182 MB of a million kernels.
_ONCE = {
    KERNEL: (*COMMON[2:], "shortName", *GRID, *BLOCK),
    RUNTIME: ("globalTid", "correlationId"),
    MEMCPY: (*COMMON[2:], "srcKind", "dstKind"),
}


def keep_columns(database: Database, _scope: Scope) -> None:
    """Read the columns, which do not depend on the ranks' numbers and clocks."""
    for table, columns in _KEPT.items():
        database.keep(table, *columns)


def keep_activities(database: Database, scope: Scope) -> None:
    """Keep the activity of each rank, and free the columns that nothing else reads."""
    keep_columns(database, scope)
    activities_of(database, scope)
    for table, columns in _ONCE.items():
        database.forget(table, *columns)
