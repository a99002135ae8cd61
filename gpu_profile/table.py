"""A table: what every analysis returns, and what text, CSV, JSON, page and gate show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Cell: TypeAlias = str | int | float | None


@dataclass(frozen=True)
class Column:
    """`unit` as nsys prints it behind the name ("ns", "%", "MB"), empty where there is none.

    `decimals` is how text and CSV show this column's floats; integers are shown whole.
    """

    name: str
    unit: str = ""
    decimals: int = 1

    def __str__(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True)
class Table:
    """`title` is nsys' report name where nsys has that report."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def column(self, name: str) -> tuple[Cell, ...]:
        """The cells of one column, by its name without the unit."""
        index = [column.name for column in self.columns].index(name)
        return tuple(row[index] for row in self.rows)

    def where(self, rows: Sequence[tuple[Cell, ...]]) -> "Table":
        return Table(self.title, self.columns, tuple(rows))
