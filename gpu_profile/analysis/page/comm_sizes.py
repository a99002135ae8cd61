"""Bus bandwidth of collectives by the size of their messages, where the sizes are known."""

from collections.abc import Iterable

import numpy as np

from gpu_profile.analysis.activity.message_sizes import bus_bandwidth
from gpu_profile.analysis.activity.states import RankSplit, RankStates, split
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.tables.comm_kernels import comm_kind
from gpu_profile.table import Cell, Column, Table

_MOST_SIZES = 16
COLUMNS = (
    Column("Collective"),
    Column("Ranks"),
    Column("Size", "MB"),
    Column("Count"),
    Column("Med Transfer", "ns"),
    Column("Bus BW", "GB/s"),
)
Known = dict[tuple[str, int], list[tuple[IntArray, IntArray]]]


def comm_sizes(parts: Iterable[RankStates], clock_error_ns: int = 0) -> Table:
    """One row a kind and size, small sizes first; many sizes are put together by powers of two.

    The transfer is counted from when the last rank had arrived; the median over all ranks
    stands for the size. Bus bandwidth: see messages.bus_bandwidth.
    """
    known: Known = {}
    for one in split(list(parts), clock_error_ns):
        _add(known, one)
    rows = [row for key in sorted(known) for row in _rows(*key, known[key])]
    return Table("comm_sizes", COLUMNS, tuple(rows))


def _add(known: Known, one: RankSplit) -> None:
    own, matched = one.states.collectives, one.arrivals.matched & (one.states.collectives.bytes > 0)
    for code, name in enumerate(own.names):
        for ranks in np.unique(one.arrivals.ranks[matched & (own.name == code)]):
            mine = matched & (own.name == code) & (one.arrivals.ranks == ranks)
            moved = own.end[mine] - np.clip(one.arrivals.last[mine], own.start[mine], own.end[mine])
            known.setdefault((name, int(ranks)), []).append((own.bytes[mine], moved))


def _rows(name: str, ranks: int, parts: list[tuple[IntArray, IntArray]]) -> list[tuple[Cell, ...]]:
    size, moved = (np.concatenate(column) for column in zip(*parts, strict=True))
    group = size
    if len(np.unique(size)) > _MOST_SIZES:
        group = 2 ** np.floor(np.log2(size)).astype(np.int64)
    return [_row(name, ranks, size[group == one], moved[group == one]) for one in np.unique(group)]


def _row(name: str, ranks: int, size: IntArray, moved: IntArray) -> tuple[Cell, ...]:
    typical, middle = int(np.median(size)), float(np.median(moved))
    bandwidth = bus_bandwidth(typical, max(1, round(middle)), ranks, comm_kind(name))
    return (
        *(name, ranks, round(typical / 1e6, 3), len(size) // ranks, middle),
        round(bandwidth, 2) or None,
    )
