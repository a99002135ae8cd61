"""From which length on a pause of the host is a stall: other work than launching."""

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.steps.common_steps import first_steady
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.step_period import GRAPH_CALL
from gpu_profile.analysis.arrays.ends import Lengths, narrow_differences
from gpu_profile.analysis.arrays.intervals import PART, Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray

LONG_GAP_NS = 1_000_000
"""Frameworks take 5 to 100 us from one launch to the next. After 1 ms without a launch the host
does other work."""
LONG_GAP_SHARE, SHORTEST_LONG_GAP_NS, MOST_LONG_GAPS = 0.1, 100_000, 2
"""Where a tenth of the step is shorter than 1 ms, a pause of that tenth is other work too, if such
pauses come once or twice in a step. If they come more often, they are slow launches."""
LAUNCHES_LONG, SHORTEST_PAUSE_NS = 20, 250_000
"""In a pause as long as 20 of the program's own launches the host does other work, however often
such pauses come. Example: Python code between two tokens of a model that generates text."""
LONGEST_LAUNCH_NS = 100_000
"""A CUDA graph is one launch for much work. Where most launches are graphs, and the median pause
before one is longer than this, the host does other work in the pause."""


def count_late_pauses(activity: Activity, late: Intervals, least: int) -> IntArray:
    """Return how many of these gaps are at least `least` ns long, for each steady step."""
    steps = find_steps(activity)
    begins = np.sort(late.start[late.end - late.start >= least])
    counts = np.diff(np.searchsorted(begins, np.r_[steps.start, steps.end[-1:]]))
    return np.asarray(counts[first_steady(steps.end - steps.start) :], np.int64)


def find_sure_stall(activity: Activity, late: Intervals) -> int:
    """Return the length (ns) from which on a pause is the host's, even after a blocking call.

    It is 1 ms, or a tenth of a shorter step where at most two of the `late` gaps of a step are as
    long.
    """
    least = _find_tenth_of_step(activity)
    counts = count_late_pauses(activity, late, least)
    are_few = len(counts) and np.median(counts) <= MOST_LONG_GAPS
    return least if are_few else LONG_GAP_NS


def choose_stall(activity: Activity, counts: IntArray) -> int:
    """Return the length (ns) from which on a pause of the host is a stall.

    `counts`: how many pauses of each step are as long as find_least_stall() says.
    """
    are_few = len(counts) and np.median(counts) <= MOST_LONG_GAPS
    return find_least_stall(activity) if are_few else _find_long_pause(activity)


@once_each
def find_least_stall(activity: Activity) -> int:
    """Return the length (ns) below which no pause of the host is a stall.

    It is the time of LAUNCHES_LONG launches, or a tenth of the step where that is shorter.
    """
    return min(_find_long_pause(activity), _find_tenth_of_step(activity))


def _find_tenth_of_step(activity: Activity) -> int:
    """Return a tenth of the median steady step (ns), from SHORTEST_LONG_GAP_NS to LONG_GAP_NS."""
    steps = find_steps(activity)
    time = (steps.end - steps.start)[first_steady(steps.end - steps.start) :]
    share = int(LONG_GAP_SHARE * float(np.median(time))) if len(time) else LONG_GAP_NS
    return min(LONG_GAP_NS, max(SHORTEST_LONG_GAP_NS, share))


@once_each
def _find_long_pause(activity: Activity) -> int:
    """Return the time (ns) of LAUNCHES_LONG launches, from SHORTEST_PAUSE_NS to LONG_GAP_NS.

    A launch counts as long as the median pause between two launches of a thread.
    """
    length = _list_pauses(activity)
    if not len(length):
        return LONG_GAP_NS
    usual = float(np.median(length, overwrite_input=True))
    if usual > LONGEST_LAUNCH_NS:
        graphs = activity.calls.match_names(activity.names, GRAPH_CALL)[activity.launches_op]
        if 2 * np.count_nonzero(graphs) > len(graphs):
            return SHORTEST_PAUSE_NS
    return min(LONG_GAP_NS, max(SHORTEST_PAUSE_NS, int(LAUNCHES_LONG * usual)))


def _list_pauses(activity: Activity) -> Lengths:
    """The times between the launches of each thread."""
    pauses = [_list_pauses_of(activity, thread) for thread in activity.launching]
    return pauses[0] if len(pauses) == 1 else np.concatenate([np.empty(0, np.int64), *pauses])


def _list_pauses_of(activity: Activity, thread: int) -> Lengths:
    """In parts, because all workers do this at a time."""
    calls, pauses = activity.calls, list[Lengths]()
    ended = np.empty(0, np.int64)
    for first in range(0, len(calls.start), PART):
        part = slice(first, first + PART)
        rows = first + np.flatnonzero(activity.launches_op[part] & (calls.thread[part] == thread))
        ends = np.r_[ended, calls.end[rows]]
        begins = calls.start[rows[len(rows) + 1 - len(ends) :]]
        pauses.append(narrow_differences(begins - ends[:-1]))
        ended = ends[-1:]
    return np.concatenate(pauses) if pauses else ended
