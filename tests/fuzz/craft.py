"""Reports that somebody made to mislead or to stop us: each is one function of a real report."""

import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
PAGE = 4096
HOSTILE = (
    "</script><script>alert(1)</script>\x1b[2J\x1b]52;c;cm0gLXJmIC8=\x07"
    '=HYPERLINK("http://evil")\r\n|`$(id)`[a](http://evil)\u202egnp.exe'
)
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT x AS start FROM c"


def _sql(*statements: str) -> Callable[[Path], None]:
    def change(report: Path) -> None:
        with closing(sqlite3.connect(report, isolation_level=None)) as database:
            for statement in statements:
                database.execute(statement)

    return change


def _root(report: Path, table: str) -> int:
    with closing(sqlite3.connect(report)) as database:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        return int(database.execute(query, (table,)).fetchone()[0])


def _children(report: Path, page: int, child: int, count: int) -> None:
    """Make the page an interior one with so many children, all of them the same page."""
    data = bytearray(report.read_bytes())
    start, cell = (page - 1) * PAGE, PAGE - 8
    data[start] = 5
    data[start + 3 : start + 5] = struct.pack(">H", count)
    data[start + cell : start + cell + 5] = struct.pack(">IB", child, 1)
    data[start + 8 : start + 12] = struct.pack(">I", child)
    for index in range(count):
        data[start + 12 + 2 * index : start + 14 + 2 * index] = struct.pack(">H", cell)
    report.write_bytes(data)


def self_loop(report: Path) -> None:
    """A page whose 600 children are itself."""
    root = _root(report, KERNEL)
    _children(report, root, root, 600)


def many_paths(report: Path) -> None:
    """Two levels of 600 children that are one page: 360,000 times the same rows."""
    first, second = _root(report, KERNEL), _root(report, "CUPTI_ACTIVITY_KIND_RUNTIME")
    leaf = _root(report, "CUPTI_ACTIVITY_KIND_MEMCPY")
    _children(report, first, second, 600)
    _children(report, second, leaf, 600)


def _schema(version: str) -> Callable[[Path], None]:
    where = "WHERE name = 'EXPORT_SCHEMA_VERSION'"
    return _sql(f"UPDATE META_DATA_EXPORT SET value = {version} {where}")


def rowids_far_apart(report: Path) -> None:
    """A rowid of 9 * 10^18; stepping through all below it would never end."""
    _sql(
        f"UPDATE {KERNEL} SET rowid = 9000000000000000000 "
        f"WHERE rowid = (SELECT max(rowid) FROM {KERNEL})",
        f"CREATE INDEX by_start ON {KERNEL}(start)",
    )(report)


def without_rowid(report: Path) -> None:
    columns = "correlationId INTEGER PRIMARY KEY, start, end, deviceId, streamId, shortName"
    _sql(
        f"DROP TABLE {KERNEL}",
        f"CREATE TABLE {KERNEL} ({columns}, demangledName, globalPid) WITHOUT /* no */ ROWID",
        f"INSERT INTO {KERNEL} VALUES (1, 2, 3, 0, 7, 1, 1, 0)",
    )(report)


def empty_index(report: Path) -> None:
    """An index over all columns that are read, whose pages are those of an empty one."""
    columns = "deviceId, start, end, streamId"
    _sql(
        f"CREATE TABLE Empty ({columns})",
        f"CREATE INDEX no_rows ON Empty ({columns})",
        f"CREATE INDEX by_device ON {KERNEL} ({columns})",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET rootpage = "
        "(SELECT rootpage FROM sqlite_master WHERE name = 'no_rows') WHERE name = 'by_device'",
    )(report)


def generated_column(report: Path) -> None:
    columns = "start, end, extra AS (start + 1) STORED, deviceId, streamId, shortName"
    _sql(
        f"DROP TABLE {KERNEL}",
        f"CREATE TABLE {KERNEL} ({columns}, demangledName, globalPid, correlationId)",
    )(report)


def hostile_names(report: Path) -> None:
    with closing(sqlite3.connect(report, isolation_level=None)) as database:
        database.execute("UPDATE StringIds SET value = ? || value", (HOSTILE,))
        database.execute("UPDATE NVTX_EVENTS SET text = ? || text", (HOSTILE,))
        database.execute("UPDATE TARGET_INFO_GPU SET name = ?", (HOSTILE,))


def long_name(report: Path, length: int = 200_000_000) -> None:
    with closing(sqlite3.connect(report, isolation_level=None)) as database:
        for column in ("shortName", "demangledName"):
            query = f"UPDATE StringIds SET value = ? WHERE id = (SELECT {column} FROM {KERNEL})"
            database.execute(query, ("A" * length,))


def many_names(report: Path, count: int = 1_000_000) -> None:
    """Each kernel and each range has a name of its own."""
    with closing(sqlite3.connect(report)) as database:
        top = database.execute("SELECT max(id) FROM StringIds").fetchone()[0] + 1
        rows = ((top + number, f"kernel_{number}") for number in range(count))
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", rows)
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({KERNEL})")]
        row = dict(
            zip(columns, database.execute(f"SELECT * FROM {KERNEL}").fetchone(), strict=True)
        )
        marks = ",".join("?" * len(columns))
        changes = (
            {
                **row,
                **{"start": row["start"] + 10 * number, "end": row["start"] + 10 * number + 5},
                **{"shortName": top + number, "demangledName": top + number},
            }
            for number in range(count)
        )
        values = (tuple(change.values()) for change in changes)
        database.executemany(f"INSERT INTO {KERNEL} VALUES ({marks})", values)
        database.commit()


CRAFTED: dict[str, tuple[Callable[[Path], None], str]] = {
    "self loop": (self_loop, "is damaged: "),
    "many paths": (many_paths, "is damaged: "),
    "view": (
        _sql(f"ALTER TABLE {KERNEL} RENAME TO K", f"CREATE VIEW {KERNEL} AS SELECT * FROM K"),
        f"has a view in place of the table {KERNEL}",
    ),
    "endless view": (
        _sql(f"DROP TABLE {KERNEL}", f"CREATE VIEW {KERNEL} AS {ENDLESS}"),
        f"has a view in place of the table {KERNEL}",
    ),
    "names in a view": (
        _sql("ALTER TABLE StringIds RENAME TO S", "CREATE VIEW StringIds AS SELECT * FROM S"),
        "has a view in place of the table StringIds",
    ),
    "generated column": (generated_column, "has a table with generated columns in place of"),
    "without rowid": (without_rowid, "has a table WITHOUT ROWID in place of"),
    "column of rowid's name": (
        _sql(
            f"ALTER TABLE {KERNEL} RENAME TO K",
            f"CREATE TABLE {KERNEL} AS SELECT *, -oid AS RowId FROM K",
        ),
        "has a table with a column rowid in place of",
    ),
    "table in other capitals": (
        _sql(f"ALTER TABLE {KERNEL} RENAME TO K", f"ALTER TABLE K RENAME TO {KERNEL.lower()}"),
        f"has {KERNEL.lower()} in place of {KERNEL}",
    ),
    "column in other capitals": (
        _sql(f'ALTER TABLE {KERNEL} RENAME COLUMN "start" TO "START"'),
        "has START in place of start",
    ),
    "empty text": (
        _sql(f"UPDATE {KERNEL} SET start = '' WHERE rowid < 9"),
        f"has text or bytes in {KERNEL}.start, which holds whole numbers",
    ),
    "numbers as text": (
        _sql(f"UPDATE {KERNEL} SET end = '5 6 7 8' WHERE rowid = 9"),
        f"has text or bytes in {KERNEL}.end, which holds whole numbers",
    ),
    "fraction": (
        _sql(f"UPDATE {KERNEL} SET start = start + 0.5 WHERE rowid = 1"),
        f"has a fraction in {KERNEL}.start, which holds whole numbers",
    ),
    "schema of another digit": (_schema("'³.1'"), "does not say its schema"),
    "schema of 5,000 digits": (_schema(f"'{'9' * 5000}'"), "does not say its schema"),
    "schema of escapes": (_schema("'3.20.3' || char(27) || ']0;x'"), "does not say its schema"),
    "schema of bytes": (_schema("x'ff'"), "does not say its schema"),
    "facts without values": (
        _sql("ALTER TABLE META_DATA_EXPORT RENAME COLUMN value TO other"),
        "was not written by nsys",
    ),
}
"""By name: what changes a report, and what the refusal says."""
