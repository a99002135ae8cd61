"""Rows of a small table with typed cells.

for number, name in read_records(database, "TARGET_INFO_GPU", integer("id"), text("name")):
    ...  # an int and a str, for mypy too
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, overload

from gpu_profile.analysis.store.cells import Column, convert_rows, refuse_cells
from gpu_profile.analysis.store.database import Database

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
Only = Mapping[str, Iterable[int]]


@overload
def read_records(
    database: Database, table: str, a: Column[A], /, *, only: Only | None = None
) -> list[tuple[A]]: ...
@overload
def read_records(
    database: Database, table: str, a: Column[A], b: Column[B], /, *, only: Only | None = None
) -> list[tuple[A, B]]: ...
@overload
def read_records(
    database: Database,
    table: str,
    a: Column[A],
    b: Column[B],
    c: Column[C],
    /,
    *,
    only: Only | None = None,
) -> list[tuple[A, B, C]]: ...
@overload
def read_records(
    database: Database,
    table: str,
    a: Column[A],
    b: Column[B],
    c: Column[C],
    d: Column[D],
    /,
    *,
    only: Only | None = None,
) -> list[tuple[A, B, C, D]]: ...
def read_records(
    database: Database, table: str, *columns: Column[Any], only: Only | None = None
) -> list[tuple[Any, ...]]:
    """The rows in the file's order, filtered as Database.load() does; empty for an absent table.

    Raises ReportError for a cell that is no number in a column of numbers, as for a damaged file.
    """
    rows = database.rows(table, *(column.name for column in columns), only=only)
    return convert_rows(rows, columns, refuse_cells(database.path, table))
