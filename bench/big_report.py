"""A big report made by repeating a real one: same schema, same mix of events, N times as long."""

import gzip
import shutil
import sqlite3
from pathlib import Path

TIMES = ("start", "end", "timestamp", "rawTimestamp")
REPEATED = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
    "NVTX_EVENTS",
)


def big_report(source: Path, target: Path, times: int) -> Path:
    """Write `target`, `source` (.sqlite or .sqlite.gz) repeated end to end `times` times."""
    if target.exists():
        return target
    part = target.with_suffix(".part")
    opener = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rb") as packed, part.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    database = sqlite3.connect(part)
    # Half of a .part is of no use anyway, and a journal would double the 480 MB that are written.
    database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
    span, correlations = _one_length(database)
    for table in REPEATED:
        _repeat(database, table, times, span, correlations)
    database.commit()
    database.close()
    return part.rename(target)


def _one_length(database: sqlite3.Connection) -> tuple[int, int]:
    query = "SELECT max(end) + 1000000, max(correlationId) + 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME"
    length: tuple[int, int] = database.execute(query).fetchone()
    return length


def _repeat(
    database: sqlite3.Connection, table: str, times: int, span: int, correlations: int
) -> None:
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    rows = database.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0] or 0
    shifts = {name: span for name in columns if name in TIMES}
    shifts |= {name: correlations for name in columns if name == "correlationId"}
    values = ", ".join(f"{name} + ? * {shifts.get(name, 0)}" for name in columns if name in shifts)
    plain = [name for name in columns if name not in shifts]
    order = [name for name in columns if name in shifts] + plain
    query = (
        f"INSERT INTO {table} ({', '.join(order)}) SELECT {', '.join([values, *plain])} "
        f"FROM {table} WHERE rowid <= {rows}"
    )
    for copy in range(1, times):
        database.execute(query, (copy,) * len(shifts))
