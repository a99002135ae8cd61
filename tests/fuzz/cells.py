"""A sound report with cells, rows or tables changed by SQL: each page is right, the values are not.

A recording that broke off has a part of this (rows without their end, tables without their names);
the rest is what somebody could make.
"""

import random
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

VALUES = (
    *(None, 0, 1, -1, 7, 255, 1 << 16, 1 << 24, (1 << 31) - 1, 1 << 32, 1 << 53, 1 << 62),
    *((1 << 63) - 1, -(1 << 63), -(1 << 31), 1.5, 1e300, float("inf"), "", "5", "abc", b"\1\2"),
    *("\x1b]0;x\x07", "<script>alert(1)</script>", "x" * 70_000, "\u202e", '{"a": [1', "-1e400"),
)
EVENTS = ("CUPTI_", "NVTX_", "OSRT_", "TARGET_", "StringIds", "GPU_", "SCHED_", "COMPOSITE_")
CHANGES = (
    "cells",
    "cells",
    "cells",
    "all cells",
    "factor",
    "offset",
    "swap",
    "copy",
    "rows",
    "table",
    "column",
)


def change_cells(content: bytes, generator: random.Random) -> tuple[bytes, list[str]]:
    """The changed report, and the SQL of each change."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.sqlite"
        path.write_bytes(content)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = off")
            database.execute("PRAGMA synchronous = off")
            notes = [_change(database, generator) for _ in range(generator.choice([1, 1, 2, 3]))]
        return path.read_bytes(), notes


def _change(database: sqlite3.Connection, generator: random.Random) -> str:
    query = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    tables = [name for (name,) in database.execute(query) if name.startswith(EVENTS)]
    table = generator.choice(tables)
    columns = [str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")]
    one, other = generator.choice(columns), generator.choice(columns)
    kind, value = generator.choice(CHANGES), generator.choice(VALUES)
    step = generator.choice([2, 3, 10, 100])
    some = f"WHERE rowid % {step} = {generator.randrange(step)}"
    number = generator.choice([-1, 0, 1000, 1 << 20, 1 << 40])
    statement = {
        "cells": f'UPDATE {table} SET "{one}" = ? {some}',
        "all cells": f'UPDATE {table} SET "{one}" = ?',
        "factor": f'UPDATE {table} SET "{one}" = "{one}" * {number} {some}',
        "offset": f'UPDATE {table} SET "{one}" = "{one}" + {number} {some}',
        "swap": f'UPDATE {table} SET "{one}" = "{other}", "{other}" = "{one}" {some}',
        "copy": f"INSERT OR IGNORE INTO {table} SELECT * FROM {table} {some}",
        "rows": f"DELETE FROM {table} {some}",
        "table": f"DROP TABLE {table}",
        "column": f'ALTER TABLE {table} RENAME COLUMN "{one}" TO "other"',
    }[kind]
    try:
        database.execute(statement, (value,) if "?" in statement else ())
    except sqlite3.Error as error:  # a key that must be one of its kind
        return f"{statement}: {error}"
    return f"{statement}: {value!r:.20}"
