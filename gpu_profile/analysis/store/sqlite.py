"""One SQLite export of nsys, opened read-only and read in bulk into numpy arrays."""

import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.gzip_file import AGAIN, unpack
from gpu_profile.analysis.store.schema import MISSING
from gpu_profile.analysis.store.sqlite_cells import Unsupported
from gpu_profile.analysis.store.sqlite_pages import PageReader
from gpu_profile.errors import ReportError

Value = str | int | float | bytes | None

MAGIC = b"SQLite format 3\0"
WINDOW = 200_000  # rows per group_concat: some MB of text, whatever the table's size

DIFFERENCE = re.compile(r"(\w+)-(\w+)")


class SqliteStore:
    """The tables of one file. Opening checks the file and raises ReportError with the reason."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if path.suffix == ".gz":
            self._temporary = tempfile.TemporaryDirectory(prefix="gpu-profile-")
        try:
            plain = unpack(path, Path(self._temporary.name)) if self._temporary else path
            check_file(plain, path)
            self._connection = _connect(plain)
            self._pages = PageReader(plain)
            self.tables = self._probe()
        except sqlite3.DatabaseError as error:
            self._drop_temporary()
            raise damaged(path, error) from error
        except ReportError:
            self._drop_temporary()
            raise

    def _drop_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()

    def close(self) -> None:
        self._connection.close()
        self._drop_temporary()

    def _probe(self) -> dict[str, tuple[str, ...]]:
        names = self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        ).fetchall()
        return {name: self._columns(name) for (name,) in names}

    def _columns(self, table: str) -> tuple[str, ...]:
        return tuple(row[1] for row in self._connection.execute(f'PRAGMA table_info("{table}")'))

    def count(self, table: str) -> int:
        return int(self._one(f'SELECT count(*) FROM "{table}"')[0])

    def integers(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[IntArray]:
        """Integer columns, one array each, in the file's order; `a-b` is a difference."""
        try:
            return self._from_pages(table, columns, only)
        except Unsupported:
            return self._from_sql(table, columns, only)

    def parts(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> Iterator[list[IntArray]]:
        """The same, some 10^5 rows at a time where the pages can be read."""
        done = 0
        try:
            for part in self._pages.parts(*self._indexes(table, columns, only)):
                yield part
                done += len(part[0])
        except Unsupported:
            yield [array[done:] for array in self._from_sql(table, columns, only)]

    def _from_pages(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[IntArray]:
        return self._pages.integers(*self._indexes(table, columns, only))

    def _indexes(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> tuple[int, list[tuple[int, ...]], dict[int, Iterable[int]]]:
        """The table's first page, and its columns by number."""
        (root,) = self._one("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
        names, keys = self.tables[table], self._rowid_aliases(table)
        parts = [name.split("-") for name in columns]
        if keys & {*only, *(name for part in parts for name in part)} or not root:
            raise Unsupported("a view, or a key that is not stored in the row")
        filters = {names.index(name): values for name, values in only.items()}
        return int(root), [tuple(names.index(name) for name in part) for part in parts], filters

    def _rowid_aliases(self, table: str) -> set[str]:
        rows = self._connection.execute(f'PRAGMA table_info("{table}")')
        return {row[1] for row in rows if row[5]}

    def _from_sql(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[IntArray]:
        """Text that SQLite itself joins, window by window, parsed by numpy."""
        joined = "||' '||".join(f"ifnull({_expression(name)},{MISSING})" for name in columns)
        query = (
            f"SELECT group_concat({joined},' ') FROM \"{table}\" WHERE rowid BETWEEN ? AND ?"
            + _condition(only)
        )
        parts = [self._parse(query, window) for window in self._windows(table)]
        flat = np.concatenate(parts) if parts else np.empty(0, np.int64)
        return [np.ascontiguousarray(flat[index :: len(columns)]) for index in range(len(columns))]

    def _parse(self, query: str, window: tuple[int, int]) -> IntArray:
        (text,) = self._one(query, window)
        return np.fromstring(str(text or ""), dtype=np.int64, sep=" ")

    def _windows(self, table: str) -> Iterator[tuple[int, int]]:
        first, last = self._one(f'SELECT min(rowid), max(rowid) FROM "{table}"')
        if first is not None:
            for low in range(int(first), int(last) + 1, WINDOW):
                yield low, low + WINDOW - 1

    def rows(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[tuple[Value, ...]]:
        names = ", ".join(f'"{name}"' for name in columns)
        query = f'SELECT {names} FROM "{table}" WHERE 1' + _condition(only) + " ORDER BY rowid"
        try:
            return self._connection.execute(query).fetchall()
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, error) from error

    def _one(self, query: str, values: tuple[int | str, ...] = ()) -> tuple[str | int, ...]:
        try:
            row: tuple[str | int, ...] = self._connection.execute(query, values).fetchone()
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, error) from error
        return row


def _connect(path: Path) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def _expression(name: str) -> str:
    if difference := DIFFERENCE.fullmatch(name):
        return '"{}"-"{}"'.format(*difference.groups())
    return f'"{name}"'


def _condition(only: Mapping[str, Iterable[int]]) -> str:
    return "".join(
        f' AND "{name}" IN ({",".join(str(int(value)) for value in values)})'
        for name, values in only.items()
    )


def damaged(path: Path, error: Exception) -> ReportError:
    return ReportError(f"{path} is damaged: {error}", AGAIN)


def check_file(path: Path, shown: Path) -> None:
    """Refuse what is no whole SQLite file; `shown` is the name the user gave.

    Layout of the header: https://www.sqlite.org/fileformat2.html#the_database_header
    """
    with path.open("rb") as file:
        header = file.read(100)
    size = path.stat().st_size
    if not header:
        raise ReportError(f"{shown} is empty: its export never finished", AGAIN)
    if not any(header[:16]):
        raise ReportError(f"{shown} has a zeroed header: its export was interrupted", AGAIN)
    if not header.startswith(MAGIC):
        raise ReportError(f"{shown} is no SQLite file", "Give a .sqlite that nsys exported")
    if len(header) < 100 or size < _expected_size(header):
        raise ReportError(f"{shown} is truncated: it holds {size} bytes", AGAIN)
    if Path(f"{path}-journal").exists() or Path(f"{path}-wal").exists():
        raise ReportError(f"{shown} has a journal: its export runs or was interrupted", AGAIN)


def _expected_size(header: bytes) -> int:
    page = int.from_bytes(header[16:18], "big")
    counted = header[24:28] == header[92:96]  # only then is the page count up to date
    return (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big") * counted
