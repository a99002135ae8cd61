"""When ranks arrive at the collectives inside their CUDA graphs, aligned by launch and ordinal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gpu_profile.analysis.activity.comm.collectives import match_collectives
from gpu_profile.analysis.activity.comm.lanes import UNMATCHED, Arrivals, Collectives
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.tables.comm_kernels import ALL_REDUCE, KINDS, SYMMETRIC_KINDS

NO_LAUNCH = -1
"""Of a collective that a call of its own launched."""
_SYMMETRIC = np.array([kind in SYMMETRIC_KINDS for kind in KINDS])

GraphView: TypeAlias = "View[IntArray]"
"""`fact`: for each collective of the rank the number of the graph launch that holds it."""


@dataclass(frozen=True, eq=False)
class GraphArrivals:
    """Collectives inside graphs of ranks that meet there: rows are `views`, columns collectives.

    `ordinal` is the place of each column in its launch, from 0, `launches` their number.
    """

    views: tuple[GraphView, ...]
    start: IntArray
    ordinal: IntArray
    launches: int

    @property
    def wait(self) -> IntArray:
        return np.asarray(self.start.max(axis=0) - self.start, np.int64)


def list_graph_arrivals(views: Sequence[GraphView]) -> list[GraphArrivals]:
    """The groups of ranks whose graph launches run together.

    A launch is matched as one collective would be: from its first collective to the end of its
    last one. So the collectives inside need no times of their own to be told apart.
    """
    launches = [_Launches.of(view) for view in views]
    arrivals = match_collectives([group.as_collectives() for group in launches])
    numbers = {int(number) for arrived in arrivals for number in np.unique(arrived.group)}
    return [
        group
        for number in sorted(numbers - {UNMATCHED})
        if (group := _join_launches(launches, arrivals, number)) is not None
    ]


@dataclass(frozen=True, eq=False)
class _Launches:
    """The launches of a rank's graphs that hold collectives, in order. `first`: the place of each
    one's first collective in `rows`, which index the rank's Collectives; `count`: how many it has.
    """

    view: GraphView
    rows: IntArray
    first: IntArray
    count: IntArray

    @classmethod
    def of(cls, view: GraphView) -> "_Launches":
        collectives, launch = view.states.collectives, view.fact
        inside = np.flatnonzero((launch != NO_LAUNCH) & _SYMMETRIC[collectives.kind])
        rows = inside[np.lexsort((collectives.start[inside], launch[inside]))]
        _, first, count = np.unique(launch[rows], return_index=True, return_counts=True)
        return cls(view, rows, first.astype(np.int64), count.astype(np.int64))

    def as_collectives(self) -> Collectives:
        """Each launch as one all-reduce, named by the number of collectives in it."""
        collectives = self.view.states.collectives
        last = self.first + self.count - 1
        start = collectives.start[self.rows[self.first]]
        end = collectives.end[self.rows[last]]
        sizes, name = np.unique(self.count, return_inverse=True)
        zeros = np.zeros(len(start), np.int64)
        kind = np.full(len(start), KINDS.index(ALL_REDUCE), np.int8)
        names = tuple(f"{size} collectives" for size in sizes)
        kernels = (start, end, zeros, name.astype(np.int64), names, zeros)
        return Collectives(*kernels, kind=kind)


def _join_launches(
    launches: Sequence[_Launches], arrivals: Sequence[Arrivals], number: int
) -> GraphArrivals | None:
    """The launches of one group in steady steps that hold as many collectives on each rank."""
    pairs = [
        (group, np.flatnonzero(arrived.group == number))
        for group, arrived in zip(launches, arrivals, strict=True)
        if np.any(arrived.group == number)
    ]
    counts = np.stack([group.count[rows] for group, rows in pairs])
    alike = np.flatnonzero((counts == counts[0]).all(axis=0))
    count = counts[0][alike]
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    start = np.stack(
        [
            group.view.states.collectives.start[
                group.rows[np.repeat(group.first[rows[alike]], count) + within]
            ]
            for group, rows in pairs
        ]
    )
    return _keep_steady(tuple(group.view for group, _ in pairs), start, within, count)


def _keep_steady(
    views: tuple[GraphView, ...], start: IntArray, ordinal: IntArray, count: IntArray
) -> GraphArrivals | None:
    arrived = start.max(axis=0)
    begin, end = max(view.start for view in views), min(view.end for view in views)
    is_inside = (arrived >= begin) & (arrived < end)
    if not is_inside.any():
        return None
    launch = np.repeat(np.arange(len(count)), count)[is_inside]
    return GraphArrivals(views, start[:, is_inside], ordinal[is_inside], len(np.unique(launch)))
