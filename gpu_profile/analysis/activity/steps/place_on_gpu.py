"""Give steps that the host began their times on the GPU, by the work that it launched in each."""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, Activity
from gpu_profile.analysis.activity.steps.steps import NO_STEPS, Steps
from gpu_profile.analysis.arrays.intervals import PART
from gpu_profile.analysis.arrays.types import IntArray, Places


def place_on_gpu(
    activity: Activity, source: str, host_start: IntArray, host_end: IntArray
) -> Steps:
    """The steps with their times on the GPU.

    Steps before the first or after the last GPU work are dropped (a capture that ends early). A
    step without GPU work between others is kept, with length 0.
    """
    ops = activity.ops
    step = find_op_steps(activity, host_start, host_end)
    # Ops are sorted by start. They are written in reverse, so the earliest one of each step stays.
    first = np.full(len(host_start) + 1, -1)  # index -1 (no step) writes the extra last cell
    first[step[::-1]] = np.arange(len(step), dtype=np.int32)[::-1]
    busy = np.flatnonzero(first[:-1] >= 0)
    if not len(busy):
        return NO_STEPS
    complete_steps = np.arange(busy[0], busy[-1] + 1)
    place = first[
        busy[np.searchsorted(busy, complete_steps)]
    ]  # an empty step takes the first operation of the next step
    start = np.maximum.accumulate(ops.start[place])
    last_end = max(_find_last_end(activity, step == complete_steps[-1], start), int(start[-1]))
    return Steps(
        source,
        host_start[complete_steps],
        host_end[complete_steps],
        start,
        _end_at_seams(activity, start, np.r_[start[1:], last_end]),
    )


def leave_out(
    activity: Activity, source: str, start: IntArray, end: IntArray, pauses: IntArray
) -> Steps:
    """The steps that begin at `start`, without the evaluations that begin at `pauses`."""
    begins = np.sort(np.r_[start, pauses])
    steps = place_on_gpu(activity, source, begins, np.r_[begins[1:], end[-1:]])
    rows = np.flatnonzero(np.isin(steps.host_start, start))
    place = np.searchsorted(start, steps.host_start[rows])
    host_end = np.minimum(end[place], steps.host_end[rows])
    begin, end = steps.start[rows], steps.end[rows]
    between = np.where(np.diff(rows) > 1, begin[1:] - end[:-1], 0)
    evaluated = np.r_[between, 0][: len(rows)]
    return Steps(source, steps.host_start[rows], host_end, begin, end, evaluation_ns=evaluated)


def _end_at_seams(activity: Activity, start: IntArray, end: IntArray) -> IntArray:
    """The ends of the steps; the last one of a window ends with the window."""
    for before, after in activity.seams.tolist():
        end = np.where((start < before) & (end >= after), before, end)
    return end


def _find_last_end(activity: Activity, of_last: NDArray[np.bool_], start: IntArray) -> int:
    """When the last step's operations ended on the GPU.

    A collective can wait for a rank whose recording has ended, a receive for the next step's
    message: one that lasts a step longer than all else is left out.
    """
    ops = activity.ops
    end = int(ops.end[of_last].max())
    works = of_last & (ops.kind != COMMUNICATION)
    if len(start) < 2 or not works.any():
        return end
    quiet = int(ops.end[works].max())
    return quiet if end - quiet > float(np.median(np.diff(start))) else end


def find_work_ends(activity: Activity, steps: Steps) -> IntArray:
    """When the GPU had done all work of each step and of those before."""
    step = find_op_steps(activity, steps.host_start, steps.host_end)
    ends = np.zeros(len(steps) + 1, np.int64)  # index -1 (no step) writes the extra last cell
    np.maximum.at(ends, step, activity.ops.end[:])
    return np.maximum.accumulate(ends[:-1])


def find_op_steps(activity: Activity, start: IntArray, end: IntArray) -> Places:
    """step_of() the launch of each operation, in parts."""
    launched, parts = activity.launch_starts, range(0, max(1, len(activity.ops.start)), PART)
    steps = (step_of(launched[first : first + PART], start, end) for first in parts)
    return np.concatenate([step.astype(np.int32) for step in steps])


def step_of(time: IntArray, start: IntArray, end: IntArray) -> IntArray:
    """The index of the step that each host time belongs to, or -1; a pause after a step belongs to
    it.
    """
    place = np.searchsorted(start, time, "right") - 1
    return np.where((place >= 0) & (time <= end[-1]), place, -1) if len(start) else place
