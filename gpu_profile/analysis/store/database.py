"""One nsys report, whatever its export's form and schema (3.1 to 3.30), as numpy columns.

    with Database.open(path) as database:
        kernels = database.load(KERNEL, "start", "end", "deviceId", "greenContextId?")
        kernels["start"]                       # int64, one element a row, sorted by start, end
        database.names(kernels["demangledName"])  # {id: text} of these ids

nsys makes a table only when it has rows, so an absent table reads as one without rows. Columns
come and go between versions: one that the caller can do without is written `name?`. Facts about
the tables: NVIDIA's schema reference in the nsys documentation ("SQLite Schema Reference").
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.cells import Value, convert_rows, integer, refuse_cells, text
from gpu_profile.analysis.store.closing import Closing
from gpu_profile.analysis.store.columns import Columns, fill_columns, gather_columns, sort_columns
from gpu_profile.analysis.store.files.gzip_file import MOST_BYTES
from gpu_profile.analysis.store.open_store import open_store
from gpu_profile.analysis.store.protocol import Store
from gpu_profile.analysis.store.schema import EVENT_TABLES, MISSING, subtract
from gpu_profile.errors import FULL_DISK, ReportError

__all__ = ["MISSING", "Columns", "Database", "IntArray", "Value", "sort_columns"]

SCHEMA_MAJOR = 3
SCHEMA = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){0,3}")
PART_ROWS = 1 << 19  # of kept columns: 4 MB a column
MANY_NAMES = 100_000  # a model has some 100 kernels and 1,000 ranges
OLD_OR_NEW = "Export it with an nsys from 2023.2 to 2026.5, or update gpu-profile"


class Database(Closing):
    """Reads one report and never writes. Every error is a ReportError that names the file."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.path = store.path
        self._names: dict[int, str] = {}
        self._kept: dict[str, Columns] = {}

    @classmethod
    def open(cls, path: Path | str, most_bytes: int = MOST_BYTES) -> "Database":
        """Open a .sqlite, a .sqlite.gz (unpacked to a temporary file) or a Parquet folder.

        `most_bytes`: a .gz that unpacks to more is refused before it fills the disk. Raises
        ReportError for a report that is missing, empty, truncated, half-written, of another
        program or of another major schema; ToolError for a Parquet folder without pyarrow.
        """
        try:
            store = open_store(Path(path), most_bytes)
        except OSError as error:
            if error.errno in FULL_DISK:
                raise
            what = f"{path} cannot be read: {error.strerror}"
            raise ReportError(what, "Let its owner give you the right, or a copy") from error
        try:
            _check_schema(database := cls(store))
        except ReportError:
            store.close()
            raise
        return database

    def close(self) -> None:
        """Release the file (and the unpacked copy of a .gz)."""
        self._store.close()

    @property
    def can_fork(self) -> bool:
        """Whether a forked copy of this process can read on after reopen()."""
        return self._store.can_fork

    def reopen(self) -> None:
        """Open the report again, in a forked copy of the process that opened it."""
        self._store.reopen()

    def has(self, table: str, *columns: str) -> bool:
        """Whether the table exists and has all of these columns.

        Raises ReportError if a view or the like has the table's name, or if a name is in other
        capitals, which SQLite reads alike. False would wrongly mean that the report has no such
        events.
        """
        if table not in self._store.tables:
            self._check_capitals(table, self._store.tables)
            return False
        self._store.check_table(table)
        present = self._store.tables[table]
        missing = [name for name in columns if name not in present]
        for name in missing:
            self._check_capitals(name, present)
        return not missing

    def _check_capitals(self, name: str, names: Iterable[str]) -> None:
        for other in names:
            if other.lower() == name.lower():
                what = f"{self.path} has {other} in place of {name}"
                raise ReportError(what, "Give nsys' own export")

    def columns(self, table: str) -> tuple[str, ...]:
        """The names of a table's columns; empty for an absent table."""
        return self._store.tables.get(table, ())

    def count(self, table: str) -> int:
        """Rows of a table; 0 for an absent one."""
        for column in self._kept.get(table, {}).values():
            return len(column)
        return self._store.count(table) if self.has(table) else 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines that a reader must know about how this report was read; mostly empty."""
        return tuple(sorted({*self._store.notes}))  # threads add them in any order

    @cached_property
    def schema(self) -> tuple[int, ...]:
        """The export's schema version, e.g. (3, 20, 3)."""
        version = self.export_facts.get("EXPORT_SCHEMA_VERSION", "")
        if not SCHEMA.fullmatch(version):
            raise ReportError(f"{self.path} does not say its schema", OLD_OR_NEW)
        return tuple(int(part) for part in version.split("."))

    @cached_property
    def export_facts(self) -> dict[str, str]:
        """The rows of META_DATA_EXPORT (EXPORT_META_DATA before 3.2), e.g. the version of nsys."""
        new, old = "META_DATA_EXPORT", "EXPORT_META_DATA"
        table = new if self.has(new, "name", "value") else old
        return {str(name): str(value) for name, value in self.rows(table, "name", "value")}

    def event_counts(self) -> dict[str, int]:
        """Rows by event table, without empty tables; a valid report has at least one entry."""
        counts = {table: self.count(table) for table in EVENT_TABLES}
        return {table: count for table, count in counts.items() if count}

    def load(
        self,
        table: str,
        *columns: str,
        only: Mapping[str, Iterable[int]] | None = None,
        sort: bool = True,
    ) -> Columns:
        """Integer columns as int64 arrays of one length, sorted by start, end (where loaded).

        `name?` may be absent from the schema and then reads as MISSING, as NULL always does; a
        missing column without the mark raises ReportError. `end-start` is computed while loading
        (the result's key is "end-start"), which is cheaper than both columns. `only` keeps rows
        whose column holds one of the values. `sort=False` keeps the file's order, which is enough
        for sums.
        """
        present = self._find_present(table, columns)
        arrays = self._integers(table, present, only or {}) if present else []
        loaded = dict(zip(present, arrays, strict=True))
        result = fill_columns(columns, loaded, len(arrays[0]) if arrays else 0)
        return sort_columns(result, "start", "end") if sort else result

    def parts(
        self, table: str, *columns: str, only: Mapping[str, Iterable[int]] | None = None
    ) -> Generator[Columns, None, None]:
        """load(..., sort=False) in parts, to save memory in sums over large tables."""
        present = self._find_present(table, columns)
        if not present or self._kept.get(table):
            rows = self.load(table, *columns, only=only, sort=False)
            count = len(next(iter(rows.values())))
            for first in range(0, max(1, count), PART_ROWS):
                yield {name: cells[first : first + PART_ROWS] for name, cells in rows.items()}
            return
        for arrays in self._store.parts(table, present, only or {}):
            yield fill_columns(columns, dict(zip(present, arrays, strict=True)), len(arrays[0]))

    def gather(
        self, table: str, columns: Sequence[str], convert: Callable[[Columns], dict[str, Any]]
    ) -> dict[str, Any]:
        """What `convert` makes of load(..., sort=False), applied to some rows at a time.

        It runs in several threads, and saves the memory of what it makes narrow or leaves out.
        """
        present = self._find_present(table, columns)
        if not present or self._kept.get(table):
            return convert(self.load(table, *columns, sort=False))
        return gather_columns(self._store, table, columns, present, convert)

    def keep(self, table: str, *columns: str) -> None:
        """Read these columns (if they exist) once now; later load() calls of them use the same
        arrays.
        """
        columns_present = [name for name in columns if self.has(table, name)]
        if self._kept.get(table, {}).keys() >= {*columns_present}:
            return
        arrays = self._store.integers(table, columns_present, {}) if columns_present else []
        for array in arrays:
            # Each later load() gives the same arrays.
            array.flags.writeable = False
        self._kept[table] = dict(zip(columns_present, arrays, strict=True))

    def forget(self, table: str, *columns: str) -> None:
        """Free these kept columns; a later load() of them reads the file."""
        kept = self._kept.get(table, {})
        self._kept[table] = {name: array for name, array in kept.items() if name not in columns}

    @contextmanager
    def lend(self, table: str, columns: Columns) -> Iterator[None]:
        """In the body, load() and parts() of these columns give these arrays."""
        kept = self._kept
        self._kept = {**kept, table: columns}
        try:
            yield
        finally:
            self._kept = kept

    def _integers(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[IntArray]:
        cached, parts = self._kept.get(table, {}), [name.split("-") for name in columns]
        if only or not cached.keys() >= {name for part in parts for name in part}:
            return self._store.integers(table, columns, only)
        return [subtract(cached[a], cached[b[0]]) if b else cached[a] for a, *b in parts]

    def rows(
        self, table: str, *columns: str, only: Mapping[str, Iterable[int]] | None = None
    ) -> list[tuple[Value, ...]]:
        """Cells of any type, for small tables, in the file's order; an absent `name?` is None."""
        present = self._find_present(table, columns)
        if not present:
            return []
        rows = self._store.rows(table, present, only or {})
        if len(present) == len(columns):
            return rows
        place = {name: index for index, name in enumerate(present)}
        picks = [place.get(name.rstrip("?")) for name in columns]
        return [tuple(None if pick is None else row[pick] for pick in picks) for row in rows]

    def texts(
        self, table: str, column: str, only: Mapping[str, Iterable[int]] | None = None
    ) -> tuple[IntArray, list[str]]:
        """A text column as (codes, texts), in the order of load(..., sort=False); NULL is ""."""
        rows = self._store.rows(table, [column], only or {}) if self.has(table, column) else []
        texts = {row: str(row[0] or "") for row in dict.fromkeys(rows)}
        codes = {text: code for code, text in enumerate(dict.fromkeys(texts.values()))}
        places = {row: codes[text] for row, text in texts.items()}
        return np.fromiter(map(places.__getitem__, rows), np.int64, len(rows)), list(codes)

    def names(self, ids: IntArray) -> dict[int, str]:
        """The texts of these ids in StringIds. Other strings, such as a program's output, are not
        read.
        """
        unique = list_distinct(ids)
        unknown = [value for value in unique if value not in self._names]
        for first in range(0, len(unknown), 1000):
            only = {"id": unknown[first : first + 1000]}
            self._names |= self._read_strings(only)
        if len(self._names) > MANY_NAMES:
            self._store.notes.append(f"more than {MANY_NAMES:,} distinct names")
        return {value: self._names.get(value, "") for value in unique}

    def ids(self, pattern: re.Pattern[str]) -> list[int]:
        """The ids of the strings that contain the pattern (to filter rows by name)."""
        return [key for key, name in self._read_strings({}).items() if pattern.search(name)]

    def _read_strings(self, only: Mapping[str, Iterable[int]]) -> dict[int, str]:
        rows = self._store.rows("StringIds", ["id", "value"], only)
        columns, refuse = (integer("id"), text("value")), refuse_cells(self.path, "StringIds")
        return dict(convert_rows(rows, columns, refuse))

    def _find_present(self, table: str, columns: Sequence[str]) -> list[str]:
        """The columns that exist; empty for an absent table. Raises ReportError as load() does."""
        if not self.has(table):
            return []
        for name in columns:
            missing = [part for part in name.split("-") if not self.has(table, part)]
            if missing and not name.endswith("?"):
                what = f"{self.path} has schema {'.'.join(map(str, self.schema))}"
                raise ReportError(f"{what}, whose {table} has no column {missing[0]}", OLD_OR_NEW)
        plain = dict.fromkeys(name.rstrip("?") for name in columns)
        return [name for name in plain if self.has(table, *name.split("-"))]


def _check_schema(database: Database) -> None:
    if not database.has("StringIds", "id", "value") or not _has_facts(database):
        raise ReportError(f"{database.path} was not written by nsys", "Give nsys' own export")
    if database.schema[0] != SCHEMA_MAJOR:
        version = ".".join(map(str, database.schema))
        raise ReportError(f"{database.path} has schema {version}, unknown here", OLD_OR_NEW)


def _has_facts(database: Database) -> bool:
    tables = ("META_DATA_EXPORT", "EXPORT_META_DATA")
    return any(database.has(table, "name", "value") for table in tables) and bool(
        database.export_facts
    )
