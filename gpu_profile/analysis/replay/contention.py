"""How much longer compute takes beside communication, whose kernels hold a part of the GPU.

A collective that waits for a late rank slows what runs beside it, so the same kernel takes longer
on the ranks that wait. Measured from the same kernel (name, grid, place in the step) alone and
beside communication, on one rank, else over all ranks; the median is 1.15, of matrix kernels up to
1.9. A rank that computes slower never waits, so its kernels run alone: ranks are compared by times
that are divided by how much slower each runs kernels of that shape alone.
"""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.run.run_graph import Columns

Reals = NDArray[np.float64]
BESIDE = 0.98
"""A kernel of which this part ran beside communication counts as beside it."""
# Communication makes no kernel faster; 4 is twice the most that was measured (1.9, see above).
LEAST, MOST = 1.0, 4.0
LONG_NS = 20_000


def measure_contention(columns: Columns, ranks: int) -> tuple[IntArray, Reals]:
    """(time of each operation without communication beside it in ns, stretch beside it)."""
    ops = columns.ops
    duration = (ops.end - ops.start).astype(np.float64)
    beside = _measure_overlap(columns, ranks)
    stretch = _measure_stretch(columns, duration, beside)
    # What ran beside communication did its work at 1/stretch of the speed.
    undisturbed = duration * (1 - beside + beside / stretch)
    return np.rint(undisturbed).astype(np.int64), stretch


def _measure_overlap(columns: Columns, ranks: int) -> Reals:
    """The part (0 to 1) of each compute operation beside communication on its GPU."""
    ops, part = columns.ops, np.zeros(len(columns.ops.start))
    for rank in range(ranks):
        of_rank = columns.op_rank == rank
        communication = of_rank & (ops.kind == COMMUNICATION)
        rows = np.flatnonzero(of_rank & (ops.kind == COMPUTE))
        union = Intervals.union(ops.start[communication], ops.end[communication])
        start, end = ops.start[rows], ops.end[rows]
        part[rows] = union.within(start, end) / np.maximum(end - start, 1)
    return part


def _measure_stretch(columns: Columns, duration: Reals, beside: Reals) -> Reals:
    """By place in the step, else by name and grid, else the median of all long kernels."""
    stretch = np.ones(len(duration))
    ops = columns.ops
    rows = np.flatnonzero((ops.kind == COMPUTE) & (ops.step >= 0))
    if not np.any(beside[rows] > 0):
        return stretch
    rows, shape, place = _find_places(columns, rows)
    took, part, rank = duration[rows], beside[rows], columns.op_rank[rows]
    on_rank = _compare(rank * (int(place.max()) + 1) + place, took, part)
    even = took / _find_slowness(rank, shape, took, part)
    by_place = np.where(np.isnan(on_rank), _compare(place, even, part), on_rank)
    has_place = ~np.isnan(by_place)
    by_shape = _find_medians(shape[has_place], by_place[has_place], int(shape.max()) + 1)[shape]
    long = has_place & (duration[rows] > LONG_NS)
    typical = float(np.median(by_place[long])) if long.any() else 1.0
    by_shape = np.where(np.isnan(by_shape), typical, by_shape)
    stretch[rows] = np.clip(np.where(has_place, by_place, by_shape), LEAST, MOST)
    return stretch


def _find_places(columns: Columns, rows: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """The rows sorted by rank, step, shape (name and grid) and launch; their shape; and their
    place: how many of the shape are launched in the step, and the number of this launch. A rank
    that launches more of them does other work at the same number.
    """
    ops = columns.ops
    grids, grid = np.unique(ops.grid[rows], return_inverse=True)
    shape = np.unique(ops.name[rows] * len(grids) + grid.ravel(), return_inverse=True)[1].ravel()
    launched = ops.call[rows]
    order = np.lexsort((ops.start[rows], launched, shape, ops.step[rows], columns.op_rank[rows]))
    rows, shape = rows[order], shape[order]
    groups = np.stack((columns.op_rank[rows], ops.step[rows].astype(np.int64), shape), axis=1)
    first = np.flatnonzero(np.r_[True, (groups[1:] != groups[:-1]).any(axis=1)])
    count = np.diff(np.r_[first, len(rows)])
    number = np.arange(len(rows)) - np.repeat(first, count)
    most = int(count.max()) + 1
    place = (shape * most + np.repeat(count, count)) * most + number
    return rows, shape, np.unique(place, return_inverse=True)[1].ravel()


def _find_slowness(rank: IntArray, shape: IntArray, duration: Reals, beside: Reals) -> Reals:
    """For each row how many times as long as the median rank its rank takes for kernels of the
    shape that run alone; without such kernels for the median shape, else 1.
    """
    free, shapes, ranks = beside == 0, int(shape.max()) + 1, int(rank.max()) + 1
    code = rank * shapes + shape
    alone = _find_medians(code[free], duration[free], ranks * shapes).reshape(ranks, shapes)
    slowness = alone / _find_middle(alone, axis=0)[None, :]
    typical = np.broadcast_to(_find_middle(slowness, axis=1)[:, None], slowness.shape)
    slowness = np.where(np.isnan(slowness), typical, slowness).ravel()[code]
    return np.where(np.isnan(slowness), 1.0, slowness)


def _find_middle(table: Reals, axis: int) -> Reals:
    """The median along an axis without NaN; NaN where there is no number."""
    # np.nanmedian warns of each row without a number, and these are common here.
    count = np.sum(~np.isnan(table), axis=axis, keepdims=True)
    ordered = np.sort(table, axis=axis)  # NaN comes last
    low = np.take_along_axis(ordered, np.maximum((count - 1) // 2, 0), axis)
    high = np.take_along_axis(ordered, np.minimum(count // 2, table.shape[axis] - 1), axis)
    return np.asarray(((low + high) / 2).squeeze(axis), np.float64)


def _compare(place: IntArray, duration: Reals, beside: Reals) -> Reals:
    """For each row the median beside communication over the median alone; NaN where unknown."""
    size = int(place.max()) + 1
    free, full = beside == 0, beside > BESIDE
    slow = _find_medians(place[full], duration[full], size)
    fast = _find_medians(place[free], duration[free], size)
    return np.asarray((slow / fast)[place], np.float64)


def _find_medians(code: IntArray, value: Reals, size: int) -> Reals:
    """The median of the values of each code from 0 to size - 1; NaN without values."""
    medians = np.full(size, np.nan)
    if len(code):
        order = np.lexsort((value, code))
        code, value = code[order], value[order]
        first = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
        count = np.diff(np.r_[first, len(code)])
        middle = value[first + (count - 1) // 2] + value[first + count // 2]
        medians[code[first]] = middle / 2
    return medians
