"""The result of one nccl-tests run: sizes, times, bandwidths."""

import re
from dataclasses import dataclass

from gpu_profile.errors import SettingsError
from gpu_profile.table import Cell, Column, Table

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Times and bandwidths of one size.

    `wrong` is None if results were not checked: with `-c 0`, or for collectives without a check.
    """

    time_us: float
    algbw: float
    busbw: float
    wrong: int | None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of nccl-tests' table. `size` is in bytes, `root` is -1 for collectives without one."""

    size: int
    count: int
    type: str
    redop: str
    root: int
    out_of_place: Speed | None
    in_place: Speed | None

    @property
    def busbw(self) -> float:
        """The out-of-place bandwidth, which is usually published, or the in-place one."""
        return next((half.busbw for half in (self.out_of_place, self.in_place) if half), 0.0)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One run of one collective. `devices` has the GPU's name for each rank."""

    collective: str
    version: str
    devices: tuple[str, ...]
    rows: tuple[Row, ...]
    out_of_bounds: int | None
    average_busbw: float | None


def parse_size(text: str) -> int:
    """Return the bytes of a size as nccl-tests reads it: 8, 64K, 1G; powers of 1024."""
    match = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None or int(match[1]) == 0:
        raise SettingsError(f"{text!r} is not a size", "Use bytes or 64K, 32M, 1G")
    return int(match[1]) * _UNITS[match[2].upper()]


def size_text(size: int) -> str:
    """Return the shortest exact form of a size: 1G, 1536M, 10."""
    for unit, factor in reversed(_UNITS.items()):
        if size >= factor and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def make_table(measurement: Measurement) -> Table:
    """Return nccl-tests' columns. A half (in or out of place) that was not measured is empty."""
    half = (Column("time", "us"), Column("algbw", "GB/s"), Column("busbw", "GB/s"))
    first = (Column("size", "B"), Column("count"), Column("type"), Column("redop"))
    columns = (*first, *half, Column("#wrong"), *half, Column("#wrong"))
    return Table(measurement.collective, columns, tuple(map(_format_cells, measurement.rows)))


def _format_cells(row: Row) -> tuple[Cell, ...]:
    cells: list[Cell] = [row.size, row.count, row.type, row.redop]
    for half in (row.out_of_place, row.in_place):
        cells += [half.time_us, half.algbw, half.busbw, half.wrong] if half else [None] * 4
    return tuple(cells)
