"""nsys' table of MPI calls."""

from functools import partial

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.labels import labels
from gpu_profile.analysis.tables.statistics import Key
from gpu_profile.analysis.tables.summary import (
    HOST_BY,
    HOST_COLUMNS,
    Grouped,
    Shape,
    grouped,
    needed,
    summary,
    together,
)
from gpu_profile.table import Column

# The Source column's words.
SOURCES = {
    "MPI_COLLECTIVES_EVENTS": "collectives",
    "MPI_OTHER_EVENTS": "other",
    "MPI_P2P_EVENTS": "p2p",
    "MPI_START_WAIT_EVENTS": "start-wait",
}


def _source(table: str, database: Database, scope: Scope) -> Grouped:
    columns = ("end-start", "textId", *needed(scope, HOST_COLUMNS))
    rows = database.load(table, *columns, sort=False)
    label = partial(_labels, SOURCES[table], database)
    return grouped(rows, scope, rows["end-start"], HOST_COLUMNS, [rows["textId"]], label)


def _labels(source: str, database: Database, found: list[tuple[int, ...]]) -> list[Key]:
    return [(source, *name) for name in labels(database, found)]


def by_name(database: Database, scope: Scope) -> Grouped:
    """Durations by class and function."""
    return together([partial(_source, table) for table in SOURCES], database, scope)


KEY = (Column("Source"), Column("Name"))
CALLS = summary(Shape("mpi_event_sum", "Instances", KEY), by_name, HOST_BY)
