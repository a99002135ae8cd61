"""Read a folder written by `nsys export --type=parquetdir`: one Parquet file for each table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.cells import Value
from gpu_profile.analysis.store.schema import MISSING, subtract
from gpu_profile.errors import ReportError, ToolError


class ParquetStore:
    """The same methods as SqliteStore, with pyarrow, which is not one of our dependencies."""

    can_fork = False  # pyarrow reads in threads, which a copy has not

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notes: list[str] = []
        self._parquet = _import_pyarrow(path)
        self._files = {file.stem: file for file in sorted(path.glob("*.parquet"))}
        if not self._files:
            raise ReportError(f"{path} holds no .parquet file", "Give the folder nsys exported")
        try:
            self.tables = {
                name: tuple(self._parquet.read_schema(file).names)
                for name, file in self._files.items()
            }
        except (OSError, ValueError) as error:
            raise _make_damaged_error(path, error) from error

    def check_table(self, table: str) -> None:
        """Accept every table: a Parquet file is always a plain one."""

    def close(self) -> None:
        """Do nothing: no file stays open between two reads."""

    def reopen(self) -> None:
        """Do nothing, as close()."""

    def count(self, table: str) -> int:
        return int(self._parquet.read_metadata(self._files[table]).num_rows)

    def integers(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[IntArray]:
        data = self._read(table, columns, only)
        return [_compute_difference(data, name) for name in columns]

    def gather(
        self,
        table: str,
        columns: Sequence[str],
        convert: Callable[[list[IntArray]], list[IntArray]],
    ) -> list[IntArray]:
        return convert(self.integers(table, columns, {}))

    def parts(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> Iterator[list[IntArray]]:
        yield self.integers(table, columns, only)

    def rows(
        self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]
    ) -> list[tuple[Value, ...]]:
        data = self._read(table, columns, only)
        return list(zip(*(data.column(name).to_pylist() for name in columns), strict=True))

    def _read(self, table: str, columns: Sequence[str], only: Mapping[str, Iterable[int]]) -> Any:  # noqa: ANN401
        names = sorted({part for name in columns for part in name.split("-")})
        filters = [(name, "in", list(values)) for name, values in only.items()] or None
        try:
            return self._parquet.read_table(self._files[table], columns=names, filters=filters)
        except (OSError, ValueError) as error:
            raise _make_damaged_error(self.path, error) from error


def _make_damaged_error(path: Path, error: Exception) -> ReportError:
    reason = " ".join(str(error).split())
    return ReportError(f"{path} is damaged: {reason}", "Export it again")


def _import_pyarrow(path: Path) -> Any:  # noqa: ANN401
    try:
        import pyarrow.parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise ToolError(
            f"{path} is a Parquet folder, and pyarrow is not installed",
            "Install pyarrow by pip, or export with --type=sqlite",
        ) from error
    return pyarrow.parquet


def _compute_difference(data: Any, name: str) -> IntArray:  # noqa: ANN401
    minuend, *right = (_convert_column(data, part) for part in name.split("-"))
    return subtract(minuend, right[0]) if right else minuend


def _convert_column(data: Any, name: str) -> IntArray:  # noqa: ANN401
    filled = data.column(name).cast("int64").fill_null(MISSING)
    return np.asarray(filled.to_numpy(), dtype=np.int64)
