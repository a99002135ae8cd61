"""Small reports made by code, in the schema that nsys exports."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.written_database import write_database

Cells = Sequence[object]
Rows = Sequence[Cells]

KERNEL_COLUMNS = (
    "start end deviceId contextId greenContextId streamId correlationId globalPid demangledName "
    "registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory "
    "dynamicSharedMemory graphNodeId"
)
COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL_COLUMNS,
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end globalTid correlationId nameId",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start end deviceId streamId correlationId globalPid",
    "NVTX_EVENTS": ("start end eventType globalTid endGlobalTid domainId text textId binaryData"),
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "schemaId name offset",
    "MPI_RANKS": "globalTid rank",
    "MPI_P2P_EVENTS": "start end globalTid textId",
    "MPI_COLLECTIVES_EVENTS": "start end globalTid textId",
    "MPI_START_WAIT_EVENTS": "start end globalTid textId",
    "MPI_OTHER_EVENTS": "start end globalTid textId",
    "OSRT_API": "start end globalTid nameId",
    "META_DATA_CAPTURE": "name value",
    "TARGET_INFO_SYSTEM_ENV": "name value",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "processId deviceId",
}


def thread(pid: int, tid: int | None = None) -> int:
    """A globalTid on the one virtual machine that nsys counts."""
    return 1 << 48 | pid << 24 | (pid if tid is None else tid)


def process(pid: int) -> int:
    return 1 << 48 | pid << 24


def kernel(start: int, end: int, name: int = 1, pid: int = 7, correlation: int = 1) -> Cells:
    owner = (0, 1, 0, 7, correlation, process(pid), name)
    return (start, end, *owner, 32, 1, 1, 1, 64, 1, 1, 0, 0, None)


def make_report(
    path: Path,
    tables: Mapping[str, Rows],
    strings: Sequence[str] = (),
    schema: str = "3.20.3",
    columns: Mapping[str, str] | None = None,
) -> Path:
    """Write tables (their columns as in COLUMNS, or given) and strings with the ids 1, 2, …"""
    facts = [("EXPORT_SCHEMA_VERSION", schema)] if schema else []
    with write_database(path) as database:
        _table(database, "META_DATA_EXPORT", "name value", facts)
        _table(database, "StringIds", "id value", list(enumerate(strings, start=1)))
        for name, rows in tables.items():
            _table(database, name, {**COLUMNS, **(columns or {})}[name], rows)
    return path


def _table(database: sqlite3.Connection, name: str, columns: str, rows: Rows) -> None:
    names = columns.split()
    database.execute(f"CREATE TABLE {name} ({', '.join(names)})")
    marks = ", ".join("?" * len(names))
    database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
