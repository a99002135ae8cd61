"""The type of a table, which every analysis returns, and which text, CSV, JSON, page and gate
show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A column. `unit` is printed after the name ("ns", "%", "MB"), as nsys does; "" for none.

    `decimals` is the number of decimals of floats in text and CSV; integers are shown whole.
    """

    name: str
    unit: str = ""
    decimals: int = 1

    def __str__(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True)
class Table:
    """A table. `title` is the name of nsys' report where nsys has the same one. `hint` says what
    would give it rows, in place of "no such events in the report".
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    hint: str = ""

    def column(self, name: str) -> tuple[Cell, ...]:
        """The cells of one column, by its name without the unit."""
        index = [column.name for column in self.columns].index(name)
        return tuple(row[index] for row in self.rows)

    def where(self, rows: Sequence[tuple[Cell, ...]]) -> "Table":
        return Table(self.title, self.columns, tuple(rows), self.hint)
