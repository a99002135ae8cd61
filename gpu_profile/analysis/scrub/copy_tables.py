"""Copy a report's plain tables row by row, with every text and blob redacted."""

import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

from gpu_profile.analysis.scrub.blobs import redact_blob
from gpu_profile.analysis.scrub.payloads import (
    NumberPayloads,
    find_number_payloads,
    keep_payload_strings,
)
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.scrub.rules import NAMED_TABLES, SYSTEM_TABLE, ScrubOptions, clean_value
from gpu_profile.analysis.scrub.strings import collect_strings, make_condition
from gpu_profile.analysis.store.schema import NVTX

_PLAIN_NAME = re.compile(r"\w{1,128}", re.ASCII)
LONGEST_COPIED = 1 << 20  # bytes; nsys' texts on a machine have 170 KB, names some 10^4
_REMOVED = "<removed>"
_PLAIN_TYPE = re.compile(r"[A-Za-z0-9 (),_]{0,40}")


@dataclass(frozen=True)
class Copied:
    """The numbers of copied tables and rows; `left_out` counts tables that are not plain, `blobs`
    the blobs that were emptied.

    `notes` are lines about values that were not copied.
    """

    tables: int
    rows: int
    left_out: int
    blobs: int
    notes: tuple[str, ...] = ()


def open_pair(source: Path, target: Path) -> sqlite3.Connection:
    """The new file as `main`, with the original attached read-only as `source`."""
    connection = sqlite3.connect(target.resolve().as_uri(), uri=True, isolation_level=None)
    # A crafted schema may call SQL functions in a view or a default: SQLite then runs none that has
    # effects (sqlite.org/pragma.html#pragma_trusted_schema).
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    original = f"{source.resolve().as_uri()}?mode=ro&immutable=1"
    connection.execute("ATTACH DATABASE ? AS source", (original,))
    return connection


def copy_tables(pair: sqlite3.Connection, options: ScrubOptions, redactor: Redactor) -> Copied:
    """Copy every plain table of `source` into `main`, its texts and blobs redacted."""
    values = _Values(options, redactor, find_number_payloads(pair))
    values.register(pair)
    tables = pair.execute(
        "SELECT name, sql FROM source.sqlite_master WHERE type = 'table' "
        "AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY rowid"
    ).fetchall()
    plain = [name for name, sql in tables if _is_plain(name, str(sql))]
    columns = {table: {name for name, _, _ in _list_columns(pair, table)} for table in plain}
    collect_strings(pair, columns, options)
    if "binaryData" in columns.get(NVTX, ()):
        keep_payload_strings(pair, values.payloads)
    rows = 0
    for table in plain:
        pair.execute("BEGIN")
        rows += _copy_table(pair, table, options)
        pair.execute("COMMIT")
    left_out = len(tables) - len(plain)
    return Copied(len(plain), rows, left_out, values.emptied_blobs, tuple(sorted(values.notes)))


@dataclass
class _Values:
    """Redacts the values of one report, as functions of SQL; counts and notes what is lost."""

    options: ScrubOptions
    redactor: Redactor
    payloads: NumberPayloads
    emptied_blobs: int = 0
    notes: set[str] = field(default_factory=set)

    def register(self, pair: sqlite3.Connection) -> None:
        functions: tuple[tuple[str, int, Callable[..., str | bytes]], ...] = (
            ("scrub_text", 1, lru_cache(maxsize=1 << 16)(self.redact_text)),
            ("scrub_named", 2, self.redact_named),
            ("scrub_payload", 1, self.redact_payload),
            ("scrub_blob", 1, self.redact_blob),
        )
        for name, count, function in functions:
            pair.create_function(name, count, function, deterministic=True)

    def redact_text(self, raw: bytes) -> str:
        if self._is_too_long(raw):
            return _REMOVED
        return self.redactor.text(raw.decode("utf-8", "replace"))

    def redact_named(self, name: object, raw: bytes) -> str:
        if self._is_too_long(raw):
            return _REMOVED
        return clean_value(str(name), raw.decode("utf-8", "replace"), self.options, self.redactor)

    def redact_payload(self, blob: bytes) -> bytes:
        stripped = self.payloads.strip(blob)
        return self.redact_blob(blob) if stripped is None else stripped

    def redact_blob(self, blob: bytes) -> bytes:
        """A blob can hold any text in any format, so it goes, unless the user wants it."""
        if self.options.keep_blobs and not self._is_too_long(blob):
            return redact_blob(blob, partial(self.redactor.text, everywhere=True))
        self.emptied_blobs += bool(blob)
        return b""

    def _is_too_long(self, raw: bytes) -> bool:
        """Searching 1 MB takes 3 s and 150 MB. A part of it could hold a part of a secret."""
        if len(raw) > LONGEST_COPIED:
            self.notes.add(f"texts longer than {LONGEST_COPIED:,} bytes are left out")
        return len(raw) > LONGEST_COPIED


def _is_plain(name: str, sql: str) -> bool:
    virtual = re.match(r"\s*CREATE\s+VIRTUAL", sql, re.IGNORECASE)
    return bool(_PLAIN_NAME.fullmatch(name)) and not virtual


def _list_columns(pair: sqlite3.Connection, table: str) -> list[tuple[str, str, bool]]:
    """(name, declared type, is the only primary key) of the stored columns."""
    rows = pair.execute(f'PRAGMA source.table_info("{table}")').fetchall()
    keys = sum(1 for row in rows if row[5])
    return [
        (row[1], row[2] if _PLAIN_TYPE.fullmatch(row[2]) else "", bool(row[5]) and keys == 1)
        for row in rows
        if _PLAIN_NAME.fullmatch(row[1])
    ]


def _copy_table(pair: sqlite3.Connection, table: str, options: ScrubOptions) -> int:
    columns = _list_columns(pair, table)
    declared = ", ".join(
        f'"{name}" {kind}' + (" PRIMARY KEY" if key and kind.upper() == "INTEGER" else "")
        for name, kind, key in columns
    )
    pair.execute(f'CREATE TABLE main."{table}" ({declared})')
    texts = _find_text_columns(pair, table, [name for name, _, _ in columns])
    values = ", ".join(
        _make_expression(table, name) if name in texts else f'"{name}"' for name, _, _ in columns
    )
    where = make_condition(table, options, {name for name, _, _ in columns})
    names = ", ".join(f'"{name}"' for name, _, _ in columns)
    query = f'INSERT INTO main."{table}" ({names}) SELECT {values} FROM source."{table}"{where}'
    return pair.execute(query).rowcount


def _find_text_columns(pair: sqlite3.Connection, table: str, names: list[str]) -> set[str]:
    """The columns that hold text or blobs. Their declared type is no proof: SQLite stores any type
    in any column (https://www.sqlite.org/datatype3.html).
    """
    expressions = ", ".join(f"max(typeof(\"{name}\") IN ('text', 'blob'))" for name in names)
    types = pair.execute(f'SELECT {expressions} FROM source."{table}"').fetchone()
    return {name for name, has in zip(names, types, strict=True) if has}


def _make_expression(table: str, name: str) -> str:
    """The SQL expression that redacts a column. Text is passed as bytes, because sqlite3 raises an
    error for text that is not UTF-8.
    """
    text = f'scrub_text(CAST("{name}" AS BLOB))'
    if table in (*NAMED_TABLES, SYSTEM_TABLE) and name == "value":
        text = 'scrub_named("name", CAST("value" AS BLOB))'
    if table == "StringIds" and name == "value":
        text = f"CASE WHEN id IN (SELECT id FROM temp.kept) THEN {text} ELSE '{_REMOVED}' END"
    blob = "scrub_payload" if (table, name) == (NVTX, "binaryData") else "scrub_blob"
    return (
        f"CASE typeof(\"{name}\") WHEN 'text' THEN {text} "
        f'WHEN \'blob\' THEN {blob}("{name}") ELSE "{name}" END'
    )
