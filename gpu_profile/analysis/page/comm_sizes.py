"""Bus bandwidth of collectives by message size, where the sizes are known."""

from collections.abc import Iterable

import numpy as np

from gpu_profile.analysis.activity.message_sizes import bus_bandwidth
from gpu_profile.analysis.activity.states import RankSplit, RankStates, split_exposed
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.tables.comm_kernels import KINDS
from gpu_profile.table import Cell, Column, Table

_MOST_SIZES = 16
COLUMNS = (
    Column("Collective"),
    Column("Ranks"),
    Column("Size", "B"),
    Column("Count"),
    Column("Med Transfer", "ns"),
    Column("Bus BW", "GB/s"),
)
Known = dict[tuple[str, str, int], list[tuple[IntArray, IntArray]]]
"""Sizes and transfer times by the kernel's name, its kind and the number of ranks."""


def comm_sizes(parts: Iterable[RankStates], clock_error_ns: int = 0) -> Table:
    """One row for each kernel name, kind and size, small sizes first.

    Over 16 sizes are grouped by powers of two. The transfer time starts when the last rank has
    arrived; the row holds the median over all ranks. Bus bandwidth: see
    message_sizes.bus_bandwidth.
    """
    sizes: Known = {}
    for split in split_exposed(list(parts), clock_error_ns):
        _add_size(sizes, split)
    rows = [row for key in sorted(sizes) for row in _build_rows(*key, sizes[key])]
    return Table("comm_sizes", COLUMNS, tuple(rows))


def _add_size(sizes: Known, split: RankSplit) -> None:
    collectives = split.states.collectives
    matched = split.arrivals.matched & (collectives.bytes > 0)
    for code, name in enumerate(collectives.names):
        alike = matched & (collectives.name == code)
        for kind in np.unique(collectives.kind[alike]):
            for ranks in np.unique(split.arrivals.ranks[alike & (collectives.kind == kind)]):
                chosen = alike & (collectives.kind == kind) & (split.arrivals.ranks == ranks)
                start, end = collectives.start[chosen], collectives.end[chosen]
                moved = end - np.clip(split.arrivals.last[chosen], start, end)
                key = (name, KINDS[kind], int(ranks))
                sizes.setdefault(key, []).append((collectives.bytes[chosen], moved))


def _build_rows(
    name: str, kind: str, ranks: int, parts: list[tuple[IntArray, IntArray]]
) -> list[tuple[Cell, ...]]:
    size, moved = (np.concatenate(column) for column in zip(*parts, strict=True))
    group = size
    if len(np.unique(size)) > _MOST_SIZES:
        group = 2 ** np.floor(np.log2(size)).astype(np.int64)
    chosen = [group == bucket for bucket in np.unique(group)]
    return [_build_row(name, kind, ranks, size[mask], moved[mask]) for mask in chosen]


def _build_row(
    name: str, kind: str, ranks: int, size: IntArray, moved: IntArray
) -> tuple[Cell, ...]:
    typical, middle = int(np.median(size)), float(np.median(moved))
    bandwidth = bus_bandwidth(typical, max(1, round(middle)), ranks, kind)
    return (
        *(name, ranks, typical, len(size) // ranks, middle),
        float(f"{bandwidth:.3g}") or None,
    )
