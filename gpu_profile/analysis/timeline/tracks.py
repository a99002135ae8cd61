"""Order the begins and ends of a track's intervals so that they nest."""

import heapq
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.timeline.perfetto import BEGIN, END, INSTANT


@dataclass(frozen=True, eq=False)
class Order:
    """The events of a track. `row`: the interval of each event; `kind`: BEGIN, END or INSTANT."""

    row: IntArray
    kind: IntArray
    time: IntArray


def sort_edges(start: IntArray, end: IntArray) -> Order:
    """Begins and ends by time; at equal times ends come first, inner ones before outer ones.

    An interval without length is one INSTANT.
    """
    empty = end <= start
    rows = np.arange(len(start))
    if np.all(start[1:] >= end[:-1]) and not empty.any():
        both = np.stack((start, end), axis=1).ravel()
        return Order(np.repeat(rows, 2), np.tile(np.array([BEGIN, END]), len(start)), both)
    closing = rows[~empty]
    row = np.concatenate((rows, closing))
    time = np.concatenate((start, end[closing]))
    kind = np.concatenate((np.where(empty, INSTANT, BEGIN), np.full(len(closing), END)))
    longest_first = np.concatenate((-end, -start[closing]))
    sequence = np.concatenate((rows, -closing))
    order = np.lexsort((sequence, longest_first, kind != END, time))
    return Order(row[order], kind[order], time[order])


def is_nested(order: Order) -> bool:
    """Whether every end closes the interval that was opened last."""
    change = np.select([order.kind == BEGIN, order.kind == END], [1, -1])
    depth = np.cumsum(change) + (order.kind == END)
    slices = np.flatnonzero(order.kind != INSTANT)
    level = slices[np.argsort(depth[slices], kind="stable")]
    return bool(np.all(order.row[level[::2]] == order.row[level[1::2]]))


def assign_lanes(start: IntArray, end: IntArray) -> IntArray:
    """A lane for each interval (sorted by start), so that no two intervals of a lane overlap."""
    result = np.zeros(len(start), np.int64)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for index, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        result[index] = lane
        heapq.heappush(busy, (last, lane))
    return result
