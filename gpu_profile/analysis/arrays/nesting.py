"""Nesting depth and parents of the intervals of one thread.

Intervals that nest are done by numpy at once; intervals that cross are done one by one.
"""

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray

NONE = -1


def nest_intervals(start: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """(depth, parent) of intervals sorted by start, of equal starts the longer one first.

    The parent is the index of the last interval that began before and has not ended, or NONE.
    Intervals that cross (such as start/end ranges) are treated as if they ended only after those
    that began inside them.
    """
    levels = nest_regular(start, end)
    return _one_by_one(start, end) if levels is None else levels


def nest_regular(start: IntArray, end: IntArray) -> tuple[IntArray, IntArray] | None:
    """(depth, parent) as nest_intervals(); None if intervals cross or have no length.

    depth(i) is the number of intervals that started before i and have not ended.
    """
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    parent = np.full(len(start), NONE)
    outer = np.flatnonzero(depth == 0)
    level = 0
    while len(outer):
        level += 1
        inner = np.flatnonzero(depth == level)
        around = outer[np.maximum(np.searchsorted(outer, inner) - 1, 0)]
        if np.any(end[inner] > end[around]) or np.any(end[inner] == start[inner]):
            return None
        parent[inner], outer = around, inner
    is_regular = not len(depth) or (int(depth.min()) == 0 and int(depth.max()) == level - 1)
    return (depth, parent) if is_regular and not np.any(end <= start) else None


def _one_by_one(start: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    depth, parent, stack = list[int](), list[int](), list[int]()
    starts, ends = start.tolist(), end.tolist()
    for index, now in enumerate(starts):
        while stack and ends[stack[-1]] <= now:
            stack.pop()
        depth.append(len(stack))
        parent.append(stack[-1] if stack else NONE)
        stack.append(index)
    return np.array(depth, np.int64), np.array(parent, np.int64)


def list_changes(start: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """(times, indexes): when the innermost open interval changes, and which one it is from then
    on.
    """
    levels = nest_regular(start, end)
    if levels is None:
        return _changes_one_by_one(start, end)
    depth, parent = levels
    time = np.concatenate((end, start))
    inner = np.concatenate((parent, np.arange(len(start))))
    # At equal times inner intervals end first, then outer ones, then new ones begin.
    rank = np.concatenate((-1 - depth, np.arange(len(start))))
    order = np.lexsort((rank, time))
    return time[order], inner[order]


def _changes_one_by_one(start: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    begin, inner, stack = list[int](), list[int](), list[int]()
    starts, ends = start.tolist(), end.tolist()
    for index, now in [*enumerate(starts), (NONE, int(np.iinfo(np.int64).max))]:
        while stack and ends[stack[-1]] <= now:
            closed = ends[stack.pop()]
            # Intervals that cross may end out of order; the times of the changes must still rise.
            begin.append(max(closed, begin[-1]))
            inner.append(stack[-1] if stack else NONE)
        if index != NONE:
            stack.append(index)
            begin.append(now)
            inner.append(index)
    return np.array(begin, np.int64), np.array(inner, np.int64)
