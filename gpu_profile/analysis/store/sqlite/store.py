"""Read one SQLite export of nsys, opened read-only, in bulk into numpy arrays."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import RLock

import numpy as np

from gpu_profile.analysis.arrays.columns import narrow_column
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.cells import Value, integers_of, refuse_cells
from gpu_profile.analysis.store.files.gzip_file import MOST_BYTES, extract_gzip, make_folder
from gpu_profile.analysis.store.schema import MISSING, subtract
from gpu_profile.analysis.store.sqlite.file import SQLITE_ERRORS, check_file, make_damaged_error
from gpu_profile.analysis.store.sqlite.page_cells import Damaged, Unsupported
from gpu_profile.analysis.store.sqlite.pages import Convert, PageReader
from gpu_profile.analysis.store.sqlite.text import LONGEST_TEXT, LONGEST_VALUE, make_decoder
from gpu_profile.errors import ReportError

SCHEMA_ROOT = 1  # the first page of sqlite_master
BATCH = 20_000  # rows fetched as Python objects at one time
# Columns of ids, which take 4 bytes in place of 8 where they fit: 50 of 360 MB of a large report.
IDS = ("deviceId", "streamId", "correlationId", "nameId", "shortName", "demangledName")
ORDER = "rowid"  # SQLite's name of the row number, unless a column has that name


@dataclass(frozen=True)
class TableInfo:
    """A table and its first page (`root`). `keys`: columns that may be aliases of the rowid, which
    are not in the row. `refusal` says why the table is not read; "" for a plain table.
    """

    root: int
    columns: tuple[str, ...]
    keys: frozenset[str]
    refusal: str = ""


class SqliteStore:
    """The tables of one file. Opening checks the file and raises ReportError with the reason."""

    can_fork = True

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self.notes: list[str] = []
        try:
            with ExitStack() as opened:
                self._open(path, most_bytes, opened)
                self._opened = opened.pop_all()
        except (*SQLITE_ERRORS, Damaged, Unsupported, RecursionError) as error:
            raise make_damaged_error(path, error) from error
        self.tables = {name: info.columns for name, info in self._infos.items()}
        self._sound = set[str]()
        self._lock = RLock()

    def _open(self, path: Path, most_bytes: int, opened: ExitStack) -> None:
        """Open the file, or its unpacked copy. `opened` closes what is open, also if this fails."""
        plain = path
        if path.suffix == ".gz":
            temporary = make_folder()
            opened.callback(temporary.cleanup)
            plain = extract_gzip(path, Path(temporary.name), most_bytes)
        check_file(plain, path)
        self._file = plain
        self._connection = opened.enter_context(closing(self._connect()))
        self._pages = PageReader(plain, int(self._fetch_row("PRAGMA page_count")[0]))
        self._pages.count(SCHEMA_ROOT)
        self._infos = self._probe()

    def _connect(self) -> sqlite3.Connection:
        connection = _connect(self._file)
        _prepare_connection(connection, self.notes)
        return connection

    def reopen(self) -> None:
        """Use a connection of this process, and leave the inherited one open as it is:
        https://www.sqlite.org/howtocorrupt.html#_carrying_an_open_database_connection_across_a_fork_
        """
        self._connection = self._connect()

    def close(self) -> None:
        self._opened.close()

    def _probe(self) -> dict[str, TableInfo]:
        rows = self._connection.execute(
            "SELECT name, type, rootpage FROM sqlite_master WHERE type IN ('table', 'view')"
            " ORDER BY name"
        ).fetchall()
        return {str(name): self._read_info(str(name), *columns) for name, *columns in rows}

    def _read_info(self, table: str, kind: str, root: Value) -> TableInfo:
        """Read a table's columns. Views and virtual tables are not queried: that could run code."""
        if kind != "table" or not isinstance(root, int) or root < 1:
            return TableInfo(0, (), frozenset(), "a view" if kind == "view" else "a virtual table")
        rows = self._connection.execute(f"PRAGMA table_xinfo({quoted(table)})").fetchall()
        columns = tuple(str(row[1]) for row in rows)
        refusals = {
            "a table WITHOUT ROWID": self._pages.is_index(root),
            "a table with generated columns": any(row[6] for row in rows),
            f"a table with a column {ORDER}": ORDER in map(str.lower, columns),
        }
        refusal = next((reason for reason, applies in refusals.items() if applies), "")
        return TableInfo(root, columns, frozenset(str(row[1]) for row in rows if row[5]), refusal)

    def check_table(self, table: str) -> None:
        """Raises ReportError for a view and anything else that nsys never writes."""
        if refusal := self._infos[table].refusal:
            what = f"{self.path} has {refusal} in place of the table {table}"
            raise ReportError(what, "Give nsys' own export")

    def count(self, table: str) -> int:
        self.check_table(table)
        try:
            return self._pages.count(self._infos[table].root)
        except (Damaged, Unsupported) as error:
            raise make_damaged_error(self.path, error) from error

    def integers(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[IntArray]:
        """Integer columns, one array each, in the file's order; `a-b` is a difference."""
        is_id = [name in IDS for name in columns]

        def narrow(arrays: list[IntArray]) -> list[IntArray]:
            pairs = zip(arrays, is_id, strict=True)
            return [narrow_column(array) if narrows else array for array, narrows in pairs]

        return self._read(table, columns, only, narrow)

    def gather(self, table: str, columns: Sequence[str], convert: Convert) -> list[IntArray]:
        """What `convert` makes of integers(), block by block in several threads."""
        return self._read(table, columns, {}, convert)

    def _read(
        self,
        table: str,
        columns: Sequence[str],
        only: Mapping[str, Iterable[int]],
        convert: Convert,
    ) -> list[IntArray]:
        self.check_table(table)
        try:
            return self._pages.integers(*self._find_indexes(table, columns, only), convert)
        except Unsupported:
            return convert(self._from_sql(table, columns, only))
        except Damaged as error:
            raise make_damaged_error(self.path, error) from error

    def parts(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> Iterator[list[IntArray]]:
        """As integers(), but some 10^5 rows at a time if the page decoder can read the table."""
        self.check_table(table)
        done = 0
        try:
            for part in self._pages.parts(*self._find_indexes(table, columns, only)):
                yield part
                done += len(part[0])
        except Unsupported:
            yield [array[done:] for array in self._from_sql(table, columns, only)]
        except Damaged as error:
            raise make_damaged_error(self.path, error) from error

    def _find_indexes(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> tuple[int, list[tuple[int, ...]], dict[int, Iterable[int]]]:
        """(first page of the table, column numbers, filters by column number)."""
        info = self._infos[table]
        parts = [name.split("-") for name in columns]
        if info.keys & {*only, *(name for part in parts for name in part)}:
            raise Unsupported("a key that is not stored in the row")
        filters = {info.columns.index(name): values for name, values in only.items()}
        numbers = [tuple(info.columns.index(name) for name in part) for part in parts]
        return info.root, numbers, filters

    def _from_sql(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[IntArray]:
        """As integers(), but with sqlite3 row by row: 10 to 15 times slower."""
        names = list(dict.fromkeys(part for name in columns for part in name.split("-")))
        cells = [f"ifnull({quoted(name)},{MISSING})" for name in names]
        parts = [
            integers_of(rows, names, refuse_cells(self.path, table))
            for rows in self._read_batches(table, cells, only)
        ]
        values = np.concatenate([np.empty((0, len(names)), np.int64), *parts])
        columns_by_name = {
            name: np.ascontiguousarray(values[:, at]) for at, name in enumerate(names)
        }
        pairs = [name.split("-") for name in columns]
        return [
            subtract(columns_by_name[a], columns_by_name[b[0]]) if b else columns_by_name[a]
            for a, *b in pairs
        ]

    def rows(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[tuple[Value, ...]]:
        self.check_table(table)
        # Names are cut. What nsys says of the machine is read whole: 170 KB of it are common.
        longest = LONGEST_VALUE if table.startswith("TARGET_INFO") else LONGEST_TEXT
        cells = [f"{quoted(name)}" for name in columns]
        with self._lock:  # threads share the connection
            self._connection.text_factory = make_decoder(self.notes, longest)
            return list(chain.from_iterable(self._read_batches(table, cells, only)))

    def _read_batches(
        self, table: str, cells: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> Iterator[list[tuple[Value, ...]]]:
        """Yield lists of BATCH rows in the file's order. Raises ReportError for SQLite's errors.

        NOT INDEXED: an index of a crafted report may lack rows that its table has.
        """
        source = f"{quoted(table)} NOT INDEXED"
        query = f"SELECT {', '.join(cells)} FROM {source} WHERE 1{_make_condition(only)}"
        self._check_pages(table)
        try:
            cursor = self._connection.execute(f"{query} ORDER BY {ORDER}")
            while rows := cursor.fetchmany(BATCH):
                yield rows
        except SQLITE_ERRORS as error:
            raise make_damaged_error(self.path, error) from error

    def _check_pages(self, table: str) -> None:
        """Check the table's pages once: SQLite would follow a cycle of pages without end."""
        if table not in self._sound:
            self.count(table)
            self._sound.add(table)

    def _fetch_row(self, query: str) -> tuple[str | int, ...]:
        row: tuple[str | int, ...] = self._connection.execute(query).fetchone()
        return row


def _connect(path: Path) -> sqlite3.Connection:
    # immutable: SQLite takes no lock and looks for no journal, which check_file has done:
    # https://www.sqlite.org/uri.html#uriimmutable
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def _prepare_connection(connection: sqlite3.Connection, notes: list[str]) -> None:
    if hasattr(connection, "setlimit"):  # Python 3.11
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.text_factory = make_decoder(notes)
    # Without it SQLite reads a cell that goes out of its page from the memory after that page:
    # https://www.sqlite.org/pragma.html#pragma_cell_size_check
    connection.execute("PRAGMA cell_size_check = ON")


def quoted(name: str) -> str:
    """The name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _make_condition(only: Mapping[str, Iterable[int]]) -> str:
    return "".join(
        f" AND {quoted(name)} IN ({','.join(str(int(value)) for value in values)})"
        for name, values in only.items()
    )
