"""Windows of time, in which facts are summed: those of RankStates, by the report's clock."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.start_up import steady_window
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.columns import is_rising
from gpu_profile.analysis.arrays.types import Flags, IntArray


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of time (ns), which may overlap."""

    start: IntArray
    end: IntArray

    def sum(self, time: IntArray, weight: IntArray) -> IntArray:
        """The sum of the weights of the events in each window, given the events' times."""
        if not is_rising(time):
            order = np.argsort(time, kind="stable")
            time, weight = time[order], weight[order]
        sums = np.zeros(len(weight) + 1, np.int64)
        np.cumsum(weight, out=sums[1:])
        first, stop = (np.searchsorted(time, edge) for edge in (self.start, self.end))
        return np.asarray(sums[stop] - sums[first], np.int64)

    def count(self, time: IntArray) -> IntArray:
        """The number of events in each window, given the events' times."""
        ordered = time if is_rising(time) else np.sort(time)
        first, stop = (np.searchsorted(ordered, edge) for edge in (self.start, self.end))
        return np.asarray(stop - first, np.int64)

    def count_rows(self, time: IntArray, chosen: Flags) -> IntArray:
        """The number of chosen events in each window, given the rising times of all events."""
        counts = np.zeros(len(time) + 1, np.int32)
        np.cumsum(chosen, out=counts[1:])
        first, stop = (np.searchsorted(time, edge) for edge in (self.start, self.end))
        return np.asarray(counts[stop] - counts[first], np.int64)


def list_windows(activity: Activity) -> Windows:
    """The steady part first, then each step, by the GPU's times."""
    steps = find_steps(activity)
    first, last = steady_window(activity)
    return Windows(np.r_[first, steps.start], np.r_[last, steps.end])


def list_host_windows(activity: Activity) -> Windows:
    """All of the host's calls first, then each step, until the host begins the next one."""
    steps, calls = find_steps(activity), activity.calls
    first, last = int(calls.start.min(initial=0)), calls.end.max(initial=1)
    ends = np.r_[steps.host_start[1:], steps.host_end[-1:]]
    return Windows(np.r_[first, steps.host_start], np.r_[last, ends])


def is_in_steady_part(activity: Activity, time: IntArray) -> NDArray[np.bool_]:
    """A mask of the times (ns) in the first window of list_windows()."""
    first, last = steady_window(activity)
    return (time >= first) & (time < last)
