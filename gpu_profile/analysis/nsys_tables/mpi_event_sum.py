"""nsys' table of MPI calls."""

from functools import partial

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.labels import label_ids
from gpu_profile.analysis.tables.statistics import Key
from gpu_profile.analysis.tables.summary import (
    HOST_BY,
    HOST_COLUMNS,
    Grouped,
    TableShape,
    group_samples,
    list_needed,
    make_summary,
    merge_sources,
)
from gpu_profile.table import Column

# The texts in the column Source, by nsys' table.
SOURCES = {
    "MPI_COLLECTIVES_EVENTS": "collectives",
    "MPI_OTHER_EVENTS": "other",
    "MPI_P2P_EVENTS": "p2p",
    "MPI_START_WAIT_EVENTS": "start-wait",
}


def _load_source(table: str, database: Database, scope: Scope) -> Grouped:
    columns = ("end-start", "textId", *list_needed(scope, HOST_COLUMNS))
    rows = database.load(table, *columns, sort=False)
    label = partial(_label_rows, SOURCES[table], database)
    return group_samples(rows, scope, rows["end-start"], HOST_COLUMNS, [rows["textId"]], label)


def _label_rows(source: str, database: Database, combinations: list[tuple[int, ...]]) -> list[Key]:
    return [(source, *name) for name in label_ids(database, combinations)]


def label_events(database: Database, scope: Scope) -> Grouped:
    """Durations of MPI calls by class and function."""
    return merge_sources([partial(_load_source, table) for table in SOURCES], database, scope)


KEY = (Column("Source"), Column("Name"))
MPI_EVENT_SUM = make_summary(
    TableShape("mpi_event_sum", "Instances", KEY), label_events, HOST_BY, "MPI calls by name"
)
