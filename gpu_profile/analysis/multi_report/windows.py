"""Join several windows of one process (--capture-range-end=repeat:N) on one clock.

The time between two windows was not recorded. It is cut out by the same amount on all ranks, so
that the windows of a rank read as one recording without a hole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import (
    KERNEL,
    MISSING,
    MPI_TABLES,
    NVTX,
    NVTX_PUSH_POP,
    NVTX_START_END,
    OSRT,
    RUNTIME,
)
from gpu_profile.analysis.tables.analysis import LaterWindow, Scope

# The gap left between the last event of a window and the first of the next one, after the cut.
SEAM_NS = 1_000
Span = tuple[int, int]


@dataclass(frozen=True)
class Windows:
    """For each report its window's `number` (0: none), and the index of the `first` window of the
    same processes (its own index for a first window).
    """

    number: tuple[int, ...]
    first: tuple[int, ...]

    @property
    def several(self) -> bool:
        """Whether any process has more than one window."""
        return any(index != first for index, first in enumerate(self.first))

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(sorted(set(self.number) - {0}))


def event_span(database: Database) -> Span:
    """(start, end) of the events of a report on its own clock; (0, 0) without any.

    CUDA and NVTX events count; other calls of the host only if there are none of these.
    """
    for tables in ((KERNEL, RUNTIME, NVTX), (OSRT, *MPI_TABLES)):
        times = np.concatenate([_times(database, table) for table in tables])
        if len(times):
            return int(times.min()), int(times.max())
    return 0, 0


def _times(database: Database, table: str) -> IntArray:
    """All starts and ends. Of NVTX only ranges count: a domain's name is also an event, at any
    time.
    """
    only = {"eventType": (NVTX_PUSH_POP, NVTX_START_END)} if table == NVTX else None
    rows = database.load(table, "start", "end?", only=only, sort=False)
    times: IntArray = np.r_[rows["start"], rows["end"]]
    return np.asarray(times[times != MISSING], np.int64)


def join_scopes(
    scopes: Sequence[Scope], windows: Windows, spans: Sequence[Span], places: Sequence[str]
) -> tuple[Scope, ...]:
    """The scopes with which the windows of each process are read together with its first one."""
    edges, cut = _cut(scopes, windows, spans)
    joined = []
    for index, scope in enumerate(scopes):
        later = [
            LaterWindow(places[other], scopes[other].ranks, cut[other] - cut[index])
            for other, first in enumerate(windows.first)
            if first == index != other
        ]
        later.sort(key=lambda window: window.shift_ns)
        is_later = windows.first[index] != index
        offset = cut[index]
        joined.append(
            replace(scope, offset_ns=offset, later=tuple(later), is_joined=is_later, edges=edges)
        )
    return tuple(joined)


def _cut(
    scopes: Sequence[Scope], windows: Windows, spans: Sequence[Span]
) -> tuple[tuple[tuple[int, int, int], ...], list[int]]:
    """(edges, offsets) after cutting out the time between the windows.

    Edges are (number, start, end) of each window; there is an offset for each report. Window 2
    begins where window 1 ended on the last rank.
    """
    edges, moved, reach = [], dict[int, int](), None
    for number in windows.numbers:
        start, end = _reach(number, scopes, windows, spans)
        moved[number] = 0 if reach is None else reach + SEAM_NS - start
        reach = end + moved[number]
        edges.append((number, start + moved[number], reach))
    offsets = [
        scope.offset_ns + moved.get(number, 0)
        for scope, number in zip(scopes, windows.number, strict=True)
    ]
    return tuple(edges), offsets


def _reach(number: int, scopes: Sequence[Scope], windows: Windows, spans: Sequence[Span]) -> Span:
    """(start, end) from the first event of a window on any rank to the last, on the run's clock."""
    indexes = [
        index for index, window_number in enumerate(windows.number) if window_number == number
    ]
    times = np.array([spans[index] for index in indexes]) + np.array(
        [[scopes[index].offset_ns] for index in indexes]
    )
    return int(times[:, 0].min()), int(times[:, 1].max())


def by_number(numbers: Sequence[int]) -> Mapping[int, list[int]]:
    """The indexes of the reports, by the number of their window."""
    reports_by_number: dict[int, list[int]] = {}
    for index, number in enumerate(numbers):
        reports_by_number.setdefault(number, []).append(index)
    return reports_by_number
