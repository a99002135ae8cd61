"""Project NVTX ranges to the GPU: find the operations launched inside each range.

nsys' rule: an operation belongs to every range of the calling thread that contains its whole API
call. A thread makes its calls one after the other, so the operations of a range are consecutive,
and two binary searches find them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.columns import is_rising, list_distinct
from gpu_profile.analysis.arrays.nesting import nest_regular
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.nsys_tables.shared.launches import Calls, load_launching_calls
from gpu_profile.analysis.nsys_tables.shared.range_rows import NvtxRanges, load_range_rows
from gpu_profile.analysis.store.database import Columns, Database
from gpu_profile.analysis.store.schema import MISSING


@dataclass(frozen=True, eq=False)
class ThreadRanges:
    """The operations (or calls) of one thread, and the ranges that contain at least one.

    `ops` are indexes in the order of the calls, `ranges` indexes into all ranges. Range i contains
    ops[first[i]:end[i]].
    """

    thread: int
    ops: IntArray
    ranges: IntArray
    first: IntArray
    end: IntArray

    def list_uncovered(self) -> IntArray:
        """The operations that no range contains."""
        change = np.zeros(len(self.ops) + 1, np.int64)
        np.add.at(change, self.first, 1)
        np.add.at(change, self.end, -1)
        free: IntArray = self.ops[np.cumsum(change[:-1]) == 0]
        return free


def split_by_thread(ranges: NvtxRanges, ops: Calls | Columns) -> Iterator[ThreadRanges]:
    """The ranges of each thread that launched something, also where it has none."""
    searchable = np.flatnonzero(~ranges.foreign.astype(bool))
    for thread in list_distinct(ops["thread"]):
        if thread == MISSING:
            continue
        rows = _sort_rows(ops["api_start"], np.flatnonzero(ops["thread"] == thread))
        of_thread = searchable[ranges.thread[searchable] == thread]
        first = np.searchsorted(ops["api_start"][rows], ranges.start[of_thread], side="left")
        # A nested call ends before the outer one. With the running maximum a range that contains
        # the outer call contains both.
        ends = np.maximum.accumulate(ops["api_end"][rows])
        end = np.searchsorted(ends, ranges.end[of_thread], side="right")
        del ends
        not_empty = end > first
        yield ThreadRanges(thread, rows, of_thread[not_empty], first[not_empty], end[not_empty])


def _sort_rows(times: IntArray, rows: IntArray) -> IntArray:
    """The rows sorted by their times."""
    row_times = times[rows]
    return rows if is_rising(row_times) else rows[np.argsort(row_times, kind="stable")]


@dataclass(frozen=True, eq=False)
class Projection:
    """Ranges that launched something, in the order of the table; arrays of one length.

    `index` points into the ranges. `start` and `end` span the operations on the GPU. `count` is
    nsys' "GPU ops": the number of launching calls, so a graph with 24 kernels counts once. `level`
    counts the enclosing ranges, `parent` is the innermost of them (an index into the ranges, or
    -1), `children` counts the ranges with this parent.
    """

    index: IntArray
    start: IntArray
    end: IntArray
    count: IntArray
    level: IntArray
    parent: IntArray
    children: IntArray


def project_ranges(database: Database) -> tuple[NvtxRanges, Projection]:
    """All ranges of one report, and their projection."""
    ranges = load_range_rows(database)
    calls = load_launching_calls(database)
    parts = [_project_thread(ranges, calls, own) for own in split_by_thread(ranges, calls)]
    return ranges, _join_parts(ranges, parts)


def _project_thread(ranges: NvtxRanges, calls: Calls, own: ThreadRanges) -> list[IntArray]:
    """[index, start, end, count, level, parent] of one thread's ranges."""
    index, first, stop = own.ranges, own.first, own.end
    order = np.lexsort((-ranges.end[index], ranges.start[index]))
    index, first, stop = index[order], first[order], stop[order]
    level, parent = _nest_ranges(ranges.start[index], ranges.end[index])
    start = _reduce_slices(np.minimum, calls["start"][own.ops], first, stop)
    end = _reduce_slices(np.maximum, calls["end"][own.ops], first, stop)
    return [index, start, end, stop - first, level, np.where(parent < 0, -1, index[parent])]


def _reduce_slices(
    function: np.ufunc, values: IntArray, first: IntArray, end: IntArray
) -> IntArray:
    """The function over each values[first[i]:end[i]]; no slice may be empty."""
    if not len(first):
        return first
    last = len(values) - 1
    bounds = np.minimum(np.stack([first, end], axis=1).ravel(), last)
    reduced: IntArray = function.reduceat(values, bounds)[::2]
    # ufunc.reduceat allows no index len(values), so slices that end there lack the last value.
    lacking = (end > last) & (first < last)
    reduced[lacking] = function(reduced[lacking], values[last])
    return reduced


def _nest_ranges(start: IntArray, end: IntArray) -> tuple[IntArray, IntArray]:
    """(level, parent or -1) of ranges sorted by start, of equal starts the longer one first.

    Ranges of different domains can cross. The parent is the shortest range (of equally long ones
    the last) that contains the whole range; the level is the parent's plus one.
    """
    if regular_levels := nest_regular(start, end):
        return regular_levels
    parents = _find_crossing(list(zip(start.tolist(), end.tolist(), strict=True)))
    levels: list[int] = []
    for parent in parents:
        levels.append(levels[parent] + 1 if parent >= 0 else 0)
    return np.array(levels, np.int64), np.array(parents, np.int64)


def _find_crossing(pairs: list[tuple[int, int]]) -> list[int]:
    """The parent of each range, or -1, where ranges cross."""
    parents: list[int] = []
    active: list[tuple[int, int, int]] = []  # end, minus the start, index
    for index, (begin, stop) in enumerate(pairs):
        active = [entry for entry in active if entry[0] > begin]
        parent = min(
            (entry for entry in active if entry[0] >= stop),
            key=lambda entry: (entry[0] + entry[1], -entry[2]),
            default=(0, 0, -1),
        )
        parents.append(parent[2])
        active.append((stop, -begin, index))
    return parents


def _join_parts(ranges: NvtxRanges, parts: list[list[IntArray]]) -> Projection:
    empty = [np.empty(0, np.int64)] * 6
    columns = [np.concatenate(arrays) for arrays in zip(empty, *parts, strict=True)]
    children = np.bincount(columns[5][columns[5] >= 0], minlength=len(ranges.row))
    order = np.argsort(columns[0])
    index, start, end, count, level, parent = (column[order] for column in columns)
    return Projection(index, start, end, count, level, parent, children[index])
