"""How much of each kernel's time is beside communication."""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, Activity
from gpu_profile.analysis.arrays.columns import is_rising
from gpu_profile.analysis.arrays.intervals import PART, Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray

ALONE, PARTLY, MOSTLY = range(3)
LEAST_BESIDE = 0.98
"""The part of a kernel's time: beside communication for half of it, a kernel shows half of the
slowdown."""
Beside = NDArray[np.int8]


@once_each
def mark_beside(activity: Activity) -> Beside:
    """How much of the time of each compute kernel, of 1 ns at least, is beside communication; ALONE
    for other operations.
    """
    ops, communication = activity.ops, activity.ops.union(COMMUNICATION)
    marks = np.full(len(ops.start), ALONE, np.int8)
    for first in range(0, len(marks) if communication.total else 0, PART):
        rows = first + np.flatnonzero(ops.kind[first : first + PART] == COMPUTE)
        start, length = ops.start[rows], np.maximum(ops.length[rows], 1)
        marks[rows] = _mark_part(communication, start, start + length)
    return marks


def _mark_part(communication: Intervals, start: IntArray, end: IntArray) -> Beside:
    """The marks of kernels sorted by start. Mostly their ends rise too: then each piece of
    communication has a row of them, of which only those at its ends are measured.
    """
    marks, inside = np.full(len(start), ALONE, np.int8), np.zeros(len(start), np.bool_)
    if is_rising(end):
        begins, ends = communication.start, communication.end
        first = np.searchsorted(ends, start[:1], "right").sum()
        near = slice(first, np.searchsorted(begins, end[-1:]).sum())
        begins, ends = begins[near], ends[near]
        touched = _mark_rows(
            np.searchsorted(end, begins, "right"), np.searchsorted(start, ends), len(start)
        )
        inside = _mark_rows(
            np.searchsorted(start, begins), np.searchsorted(end, ends, "right"), len(start)
        )
    else:
        touched = communication.touches(start, end)
    marks[inside] = MOSTLY
    rest = np.flatnonzero(touched & ~inside)
    part = communication.within(start[rest], end[rest]) / (end[rest] - start[rest])
    marks[rest] = np.where(part > LEAST_BESIDE, MOSTLY, PARTLY)
    return marks


def _mark_rows(first: IntArray, stop: IntArray, count: int) -> Flags:
    """A mask of the places from any `first` to before its `stop`."""
    begun = np.bincount(first, minlength=count + 1)
    ended = np.bincount(np.maximum(stop, first), minlength=count + 1)
    return np.asarray(np.cumsum(begun - ended)[:count] > 0, np.bool_)
