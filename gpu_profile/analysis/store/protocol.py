"""What a form of nsys' export must offer to be read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.sqlite import Value


class Store(Protocol):
    """What a form of export must offer; tables maps a table's name to its columns' names.

    `notes`: lines about what was read in another way than it stands in the file, such as
    "names longer than 65,536 characters are cut".
    """

    path: Path
    tables: dict[str, tuple[str, ...]]
    notes: list[str]

    def check_table(self, table: str) -> None: ...

    def close(self) -> None: ...

    def count(self, table: str) -> int: ...

    def integers(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[IntArray]: ...

    def parts(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> Iterator[list[IntArray]]: ...

    def rows(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[tuple[Value, ...]]: ...
