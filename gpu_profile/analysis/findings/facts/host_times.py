"""The time of a rank's host in each step: active, and silent."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.idle.blocking_calls import blocking_calls
from gpu_profile.analysis.activity.idle.stalls import choose_stall, find_least_stall
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.arrays.intervals import PART, Intervals
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
    slow = np.flatnonzero(activity.launches_op & calls.longer_than(SLOW_LAUNCH_NS))
    late = calls.start[slow] + SLOW_LAUNCH_NS
    held = Intervals.union(np.r_[blocking.start, late], np.r_[blocking.end, calls.end[slow]])
    start = steps.host_start
    end = np.r_[start[1:], steps.host_end[-1:]]
    active = end - start - held.within(start, end)
    blocked, least = Intervals.union(blocking.start, blocking.end), find_least_stall(activity)
    silence = _find_silence(activity, blocked, least)
    counts = np.diff(np.searchsorted(silence.start, start))
    stalls = _select_long(silence, choose_stall(activity, counts) if len(counts) else least)
    return HostTimes(active, stalls.within(start, end))


def _find_silence(activity: Activity, blocked: Intervals, least: int) -> Intervals:
    """The pauses of at least `least` ns between the launches and the blocking calls (`blocked`)."""
    calls, launches = activity.calls, activity.launches_op & activity.calls.longer_than(0)
    if not launches.any():
        return _select_long(blocked.gaps(), least)
    # Few pauses between launches are long, so the blocking calls are taken out of those only.
    last = int(blocked.start.min(initial=calls.start[np.argmax(launches)]))
    begins, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first in range(0, len(launches), PART):
        rows = first + np.flatnonzero(launches[first : first + PART])
        # Launches of several threads overlap: a pause begins after the last of all before it.
        reach = np.maximum.accumulate(np.r_[last, calls.end[rows]])
        last = int(reach[-1])
        long = np.flatnonzero(calls.start[rows] - reach[:-1] >= least)
        begins.append(reach[long])
        ends.append(calls.start[rows[long]])
    begins.append(np.array([last]))
    ends.append(np.array([blocked.end.max(initial=last)]))
    pauses = Intervals(np.concatenate(begins), np.concatenate(ends))
    return _select_long(_select_long(pauses, least).minus(blocked), least)


def _select_long(pieces: Intervals, least: int) -> Intervals:
    long = pieces.end - pieces.start >= least
    return Intervals(pieces.start[long], pieces.end[long])
