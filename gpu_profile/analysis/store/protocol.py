"""The protocol for reading one form of nsys' export (SQLite or Parquet)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.cells import Value


class Store(Protocol):
    """The methods that a form of export must have.

    `tables` maps the name of a table to the names of its columns. `notes` are lines about values
    that are changed when read, such as "names longer than 65,536 characters are cut". `can_fork`:
    a forked copy of the process can read on after reopen().
    """

    path: Path
    tables: dict[str, tuple[str, ...]]
    notes: list[str]
    can_fork: bool

    def check_table(self, table: str) -> None: ...

    def close(self) -> None: ...

    def count(self, table: str) -> int: ...

    def integers(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[IntArray]: ...

    def gather(
        self,
        table: str,
        columns: Sequence[str],
        convert: Callable[[list[IntArray]], list[IntArray]],
    ) -> list[IntArray]: ...

    def parts(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> Iterator[list[IntArray]]: ...

    def reopen(self) -> None: ...

    def rows(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[tuple[Value, ...]]: ...
