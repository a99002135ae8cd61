"""The time of a rank's host in each step: active, and silent."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.idle import blocking_calls, find_least_stall
from gpu_profile.analysis.activity.steps import Steps
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.types import IntArray

# A longer launch waits for space in the full launch queue: the host is far ahead.
SLOW_LAUNCH_NS = 100_000


@dataclass(frozen=True, eq=False)
class HostTimes:
    """ns by step, empty without steps. `active`: the host's time less that in blocking calls and
    full launch queues. `silent`: the part of `active` in which it issued nothing for as long as a
    stall (find_least_stall), such as while it loads a batch.
    """

    active: IntArray
    silent: IntArray

    @property
    def issuing(self) -> IntArray:
        """`active` without `silent`: what launching takes."""
        return self.active - self.silent


def measure_host_times(activity: Activity, steps: Steps) -> HostTimes:
    """The host's times in each step, from the step's begin on the host to the next one's."""
    if not len(steps):
        return HostTimes(np.empty(0, np.int64), np.empty(0, np.int64))
    calls, blocking = activity.calls, blocking_calls(activity)
    launches = np.flatnonzero(activity.asked)
    late = calls.start[launches] + SLOW_LAUNCH_NS
    held = Intervals.union(np.r_[blocking.start, late], np.r_[blocking.end, calls.end[launches]])
    start = steps.host_start
    end = np.r_[start[1:], steps.host_end[-1:]]
    active = end - start - held.within(start, end)
    return HostTimes(
        active, _find_silence(activity, blocking.start, blocking.end).within(start, end)
    )


def _find_silence(activity: Activity, start: IntArray, end: IntArray) -> Intervals:
    """The time between the launches and the blocking calls (`start`, `end`), where it is long."""
    calls, launches = activity.calls, np.flatnonzero(activity.asked)
    issuing = Intervals.union(np.r_[calls.start[launches], start], np.r_[calls.end[launches], end])
    gaps = issuing.gaps()
    long = gaps.end - gaps.start >= find_least_stall(activity)
    return Intervals(gaps.start[long], gaps.end[long])
