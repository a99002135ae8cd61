"""nsys' table of CUDA API calls (runtime and driver)."""

from functools import partial

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import RUNTIME
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.labels import api_labels
from gpu_profile.analysis.tables.summary import (
    HOST_BY,
    HOST_COLUMNS,
    Grouped,
    TableShape,
    count_table,
    make_summary,
)
from gpu_profile.table import Column

CATEGORY = "CUDA_API"


def label_calls(database: Database, scope: Scope) -> Grouped:
    """Durations of API calls by function."""
    return count_table(
        database, scope, RUNTIME, ["nameId"], HOST_COLUMNS, partial(api_labels, database)
    )


CUDA_API_SUM = make_summary(
    TableShape("cuda_api_sum", "Num Calls", (Column("Name"),)),
    label_calls,
    HOST_BY,
    "CUDA API calls, runtime and driver, by name",
)
