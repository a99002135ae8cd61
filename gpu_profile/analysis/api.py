"""nsys' table of CUDA API calls (runtime and driver)."""

from functools import partial

from gpu_profile.analysis.analysis import Scope
from gpu_profile.analysis.database import Database
from gpu_profile.analysis.names import api_labels
from gpu_profile.analysis.schema import RUNTIME
from gpu_profile.analysis.summary import (
    HOST_BY,
    HOST_COLUMNS,
    Grouped,
    Shape,
    grouped,
    needed,
    summary,
)
from gpu_profile.analysis.table import Column

CATEGORY = "CUDA_API"


def by_name(database: Database, scope: Scope) -> Grouped:
    """Durations of API calls by function."""
    columns = ("end-start", "nameId", *needed(scope, HOST_COLUMNS))
    rows = database.load(RUNTIME, *columns, sort=False)
    label = partial(api_labels, database)
    return grouped(rows, scope, rows["end-start"], HOST_COLUMNS, [rows["nameId"]], label)


CALLS = summary(Shape("cuda_api_sum", "Num Calls", (Column("Name"),)), by_name, HOST_BY)
