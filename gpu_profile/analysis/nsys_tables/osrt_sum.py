"""nsys' table of calls into the operating system's libraries."""

from functools import partial

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import OSRT
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.labels import label_ids
from gpu_profile.analysis.tables.summary import (
    HOST_BY,
    HOST_COLUMNS,
    Grouped,
    TableShape,
    count_table,
    make_summary,
)
from gpu_profile.table import Column

CALL = 27  # eventClass of a call; other classes mark where nsys started and stopped recording


def label_os_calls(database: Database, scope: Scope) -> Grouped:
    """Durations of operating system calls by function."""
    only = {"eventClass": (CALL,)} if database.has(OSRT, "eventClass") else None
    label = partial(label_ids, database)
    return count_table(database, scope, OSRT, ["nameId"], HOST_COLUMNS, label, only)


OSRT_SUM = make_summary(
    TableShape("osrt_sum", "Num Calls", (Column("Name"),)),
    label_os_calls,
    HOST_BY,
    "calls of the operating system's libraries by name",
)
