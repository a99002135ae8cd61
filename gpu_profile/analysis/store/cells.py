"""The cells of SQLite and Parquet as typed values: a number's column that holds text is refused."""

import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.files.recording import advise_export
from gpu_profile.errors import ReportError

Value = str | int | float | bytes | None
Kind = TypeVar("Kind", covariant=True)
Refuse = Callable[[str, Value], ReportError]
"""Makes the error about a cell, from the name of its column and the cell."""


@dataclass(frozen=True)
class Column(Generic[Kind]):
    """A column to read. `name?` may be absent from the schema and then reads as NULL.

    `plain`: the types of cells that are right as they are. `convert` makes the value of any other.
    """

    name: str
    plain: frozenset[type]
    convert: Callable[[str, Value, Refuse], Kind]


def integer(name: str) -> Column[int]:
    """A column of whole numbers without NULL."""
    return Column(name, frozenset({int}), convert_integer)


def integer_or_none(name: str) -> Column[int | None]:
    """A column of whole numbers; NULL is None."""
    return Column(name, frozenset({int, type(None)}), convert_integer)


def text(name: str) -> Column[str]:
    """A column of texts. SQLite stores a number in it if its type is not declared; NULL is ""."""
    return Column(name, frozenset({str}), _convert_text)


def blob(name: str) -> Column[bytes | None]:
    """A column of bytes. Anything else is None, as NULL is: a payload that cannot be decoded."""
    return Column(name, frozenset({bytes, type(None)}), _convert_blob)


def convert_integer(name: str, cell: Value, refuse: Refuse) -> int:
    """The cell as an int; 5.0 is 5, because SQLite treats them alike."""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1 << 63:
        return int(cell)
    if not isinstance(cell, int):
        raise refuse(name, cell)
    return cell


def _convert_text(_: str, cell: Value, __: Refuse) -> str:
    return "" if cell is None else str(cell)


def _convert_blob(_: str, __: Value, ___: Refuse) -> None:
    return None


def refuse_cells(path: Path, table: str) -> Refuse:
    """The error about a cell of this table that is no whole number."""

    def refuse(column: str, cell: Value) -> ReportError:
        kind = {float: "a fraction", type(None): "no value"}.get(type(cell), "text or bytes")
        what = f"{path} has {kind} in {table}.{column}, which holds whole numbers"
        return ReportError(what, advise_export(path))

    return refuse


def convert_rows(
    rows: Sequence[tuple[Value, ...]], columns: Sequence[Column[Any]], refuse: Refuse
) -> list[tuple[Any, ...]]:
    """The rows with typed cells. Rows of plain types, nearly all, are checked by column."""
    types = [set(map(type, cells)) for cells in zip(*rows, strict=True)]
    if all(kinds <= column.plain for kinds, column in zip(types, columns, strict=False)):
        return list(rows)
    return [
        tuple(
            cell if type(cell) in column.plain else column.convert(column.name, cell, refuse)
            for column, cell in zip(columns, row, strict=True)
        )
        for row in rows
    ]


def integers_of(
    rows: Sequence[tuple[Value, ...]], names: Sequence[str], refuse: Refuse
) -> IntArray:
    """Cells as int64, shape (rows, columns). Raises for others: numpy would read '7' and 1.5 as
    ints.
    """
    cells: Iterable[Any] = chain.from_iterable(rows)
    try:
        flat = array.array("q", cells)
    except (TypeError, OverflowError):
        pairs = (pair for row in rows for pair in zip(names, row, strict=True))
        flat = array.array("q", [convert_integer(name, cell, refuse) for name, cell in pairs])
    return np.frombuffer(flat, np.int64).reshape(len(rows), len(names))
