"""Collectives by communicator and kind: who waited for whom, and how long the data took."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.cached import share, states_of
from gpu_profile.analysis.activity.collectives import UNMATCHED
from gpu_profile.analysis.activity.message_sizes import bus_bandwidth
from gpu_profile.analysis.activity.states import RankSplit, RankStates, split
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.analysis.tables.comm_kernels import comm_kind
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Communicator"),
    Column("Ranks"),
    Column("Collective"),
    Column("Rank"),
    Column("Count"),
    Column("Total", "ns"),
    Column("Wait", "ns"),
    Column("Transfer", "ns"),
    Column("Med Transfer", "ns"),
    Column("Exposed", "%"),
    Column("Arrived Last", "%"),
    Column("Moved", "MB"),
    Column("Alg BW", "GB/s"),
    Column("Bus BW", "GB/s"),
)


def merge(parts: Sequence[Sequence[RankStates]]) -> Table:
    """One row a communicator, kind and rank, the longest total first.

    A communicator is a number of ours: ranks whose kernels of one stream meet and end together.
    Without a partner in the reports given it has no number, and wait and transfer stay empty.
    Moved, and with it the bandwidth while transferring, is known where NCCL's payloads are in the
    report, or where DDP's copies out of its buckets tell it.
    """
    rows = chain.from_iterable(_rows(rank) for rank in split(list(chain.from_iterable(parts))))
    return Table("comm_sum", COLUMNS, tuple(sorted(rows, key=_order)))


def _order(row: tuple[Cell, ...]) -> tuple[object, ...]:
    return (row[0] is None, row[0] or 0, str(row[2]), row[3])


def _rows(rank: RankSplit) -> list[tuple[Cell, ...]]:
    """`hidden` is by the kernel's own time: what of it compute covered."""
    own, groups = rank.states.collectives, rank.arrivals.group
    return [
        _row(rank, int(group), name, (groups == group) & (own.name == code))
        for group in np.unique(groups)
        for code, name in enumerate(own.names)
        if np.any((groups == group) & (own.name == code))
    ]


def _row(rank: RankSplit, group: int, name: str, mine: NDArray[np.bool_]) -> tuple[Cell, ...]:
    own, arrivals = rank.states.collectives, rank.arrivals
    start, end = own.start[mine], own.end[mine]
    covered = Intervals.union(start, end)
    exposed = share(covered.meet(rank.states.exposed).total, covered.total)
    count, total = int(mine.sum()), int((end - start).sum())
    if group == UNMATCHED:
        unknown = (None,) * 3
        return (None, None, name, rank.rank, count, total, *unknown, exposed, None, *unknown)
    last = np.clip(arrivals.last[mine], start, end)
    came_last = share(int((arrivals.late[mine] > 0).sum()), count)
    moved = end - last
    times = (int((last - start).sum()), int(moved.sum()), float(np.median(moved)))
    ranks = int(arrivals.ranks[mine][0])
    bandwidth = _bandwidth(_moved(rank, mine), times[1], ranks, name)
    return (group, ranks, name, rank.rank, count, total, *times, exposed, came_last, *bandwidth)


def _moved(rank: RankSplit, mine: NDArray[np.bool_]) -> int:
    """Bytes of these collectives; 0 where not all of them are known."""
    size = rank.states.collectives.bytes[mine]
    if np.all(size > 0):
        return int(size.sum())
    return int(rank.states.reduced[0]) if mine.all() else 0


def _bandwidth(moved: int, ns: int, ranks: int, name: str) -> tuple[Cell, ...]:
    if not moved or not ns:
        return (None, None, None)
    bus = bus_bandwidth(moved, ns, ranks, comm_kind(name))
    return (round(moved / 1e6, 3), round(moved / ns, 2), round(bus, 2) or None)


COMM_SUM = Analysis("comm_sum", states_of, merge)
