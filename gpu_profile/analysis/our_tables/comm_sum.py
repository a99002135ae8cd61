"""Table comm_sum: time of collectives by communicator and kind, as waiting and transfer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.cached import compute_share, states_of
from gpu_profile.analysis.activity.comm.lanes import UNMATCHED
from gpu_profile.analysis.activity.comm.message_sizes import bus_bandwidth
from gpu_profile.analysis.activity.comm.roles import Group, find_groups, short_ranks
from gpu_profile.analysis.activity.states import RankSplit, RankStates, split_exposed
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.analysis.tables.comm_kernels import ALL_REDUCE, KINDS
from gpu_profile.table import Cell, Column, Table

# Barriers and empty messages have no size, so 90 % with a size are enough.
KNOWN_SHARE = 0.9
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
    Column("Group"),
    Column("Members"),
)


def merge_communication(parts: Sequence[Sequence[RankStates]]) -> Table:
    """One row for each communicator, kind and rank, by communicator and kernel name.

    Communicators are numbered by us: by the ids in NCCL's payloads, or else by kernels of one
    stream that overlap and end together. Without a partner in the given reports the number, wait
    and transfer are empty. Moved and the bandwidth need NCCL's payloads, or DDP's copies out of
    its buckets. Group: the use of a communicator (data, tensor, pipeline, expert, ring), empty if
    unknown.
    """
    ranks = split_exposed(list(chain.from_iterable(parts)))
    groups = find_groups(ranks)
    rows = chain.from_iterable(_build_rows(rank, groups) for rank in ranks)
    return Table("comm_sum", COLUMNS, tuple(sorted(rows, key=_sort_key)))


def _sort_key(row: tuple[Cell, ...]) -> tuple[object, ...]:
    return (row[0] is None, row[0] or 0, str(row[2]), row[3])


def _build_rows(rank: RankSplit, group_by_number: Mapping[int, Group]) -> list[tuple[Cell, ...]]:
    collectives, groups = rank.states.collectives, rank.arrivals.group
    table_rows = []
    for group in np.unique(groups):
        for code, name in enumerate(collectives.names):
            alike = (groups == group) & (collectives.name == code)
            for kind in np.unique(collectives.kind[alike]):
                part = _Part(int(group), name, KINDS[kind], alike & (collectives.kind == kind))
                table_rows.append(
                    (*_build_row(rank, part), *_group(group_by_number.get(part.group), part.kind))
                )
    return table_rows


def _group(group: Group | None, kind: str) -> tuple[Cell, ...]:
    """The use of the communicator and its ranks: ("tensor", "0-3")."""
    if group is None:
        return (None, None)
    return (group.roles.get(kind) or None, short_ranks(group.ranks))


@dataclass(frozen=True, eq=False)
class _Part:
    """The kernels of one communicator, name and kind; `rows` is a mask of the Collectives."""

    group: int
    name: str
    kind: str
    rows: NDArray[np.bool_]


def _build_row(rank: RankSplit, part: _Part) -> tuple[Cell, ...]:
    collectives, arrivals, rows = rank.states.collectives, rank.arrivals, part.rows
    start, end = collectives.start[rows], collectives.end[rows]
    covered = Intervals.union(start, end)
    exposed = compute_share(covered.overlap(rank.states.exposed), covered.total)
    times = (int(rows.sum()), int((end - start).sum()))
    if part.group == UNMATCHED:
        unknown = (None,) * 3
        return (None, None, part.name, rank.rank, *times, *unknown, exposed, None, *unknown)
    last = np.clip(arrivals.last[rows], start, end)
    came_last = compute_share(int((arrivals.lateness[rows] > 0).sum()), times[0])
    split_times = (int((last - start).sum()), int((end - last).sum()), float(np.median(end - last)))
    ranks = int(arrivals.ranks[rows][0])
    bandwidth = _compute_bandwidth(rank, part, end - last, ranks)
    facts = (part.group, ranks, part.name, rank.rank)
    return (*facts, *times, *split_times, exposed, came_last, *bandwidth)


def _compute_bandwidth(
    rank: RankSplit, part: _Part, transfer: IntArray, ranks: int
) -> tuple[Cell, ...]:
    """(MB moved, algorithm GB/s, bus GB/s); all None if the sizes are unknown.

    The sizes are those of the kernels if at least 90 % have one, else of DDP's copies.
    """
    size = rank.states.collectives.bytes[part.rows]
    has_size = size > 0
    moved, ns = int(size.sum()), int(transfer[has_size].sum())
    if has_size.mean() < KNOWN_SHARE:
        is_all_reduce = part.rows.all() and part.kind == ALL_REDUCE
        moved, ns = (
            (int(rank.states.reduced_bytes[0]), int(transfer.sum())) if is_all_reduce else (0, 0)
        )
    if not moved or not ns:
        return (None, None, None)
    bus = bus_bandwidth(moved, ns, ranks, part.kind)
    return (round(moved / 1e6, 3), round(moved / ns, 2), round(bus, 2) or None)


COMM_SUM = Analysis(
    "comm_sum",
    states_of,
    merge_communication,
    doc="collectives by communicator and kind: wait, transfer, bandwidth, who arrived last",
    claims="derived: wait and transfer, by the arrival of the last rank; the rest is measured",
)
