"""The rows of a rank's host in the timeline: its CUDA calls, and what it did between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import NO_CALL, Activity
from gpu_profile.analysis.activity.idle.gaps import STALL, find_gaps
from gpu_profile.analysis.arrays.columns import encode_column, is_among, list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.host.compilations import MOST_PERIODS
from gpu_profile.analysis.host.functions import top_functions
from gpu_profile.analysis.host.stacks import HostStacks
from gpu_profile.analysis.page.marks import NO_MARKS, Marks
from gpu_profile.analysis.tables.labels import API_VERSION

THREADS = 2
"""Threads of a process whose calls have a row: PyTorch launches backward work from a second one."""
MOST_STACKS = 6_000
PAUSE = "host launches nothing"


@dataclass(frozen=True, eq=False)
class HostRows:
    """`calls`: CUDA calls, a lane a thread; `calls_left_out`: short ones. `stacks`: the function
    that the launching thread was in, or else its pauses, the longest of them.
    """

    calls: Marks = NO_MARKS
    calls_left_out: int = 0
    stacks: Marks = NO_MARKS
    stacks_left_out: int = 0


def find_threads(activity: Activity) -> list[int]:
    """The threads with most calls: first the one that called first, which is the main thread."""
    thread = activity.calls.thread
    counts = {number: int(np.count_nonzero(thread == number)) for number in list_distinct(thread)}
    busiest = sorted(counts, key=lambda number: (-counts[number], number))[:THREADS]
    busiest = sorted(busiest, key=lambda number: int(np.argmax(thread == number)))
    return [int(activity.calls.threads[number]) for number in busiest]


def measure_calls(activity: Activity, threads: Sequence[int], edges: IntArray) -> list[IntArray]:
    """The ns in calls of each of these threads between neighbouring edges; of THREADS threads."""
    calls = activity.calls
    rows = [np.flatnonzero(calls.thread == calls.number_of(thread)) for thread in threads]
    rows += [np.empty(0, np.int64)] * (THREADS - len(rows))
    return [Intervals.split(calls.start[chosen], calls.end[chosen], edges) for chosen in rows]


def draw_calls(
    activity: Activity, threads: Sequence[int], stretch: tuple[int, int], offset: int, most: int
) -> tuple[Marks, int]:
    """(marks, number left out) of the calls in a stretch; of many the `most` longest."""
    calls, (low, high) = activity.calls, stretch
    numbers = [calls.number_of(thread) for thread in threads]
    rows = np.flatnonzero(
        (calls.end[:] > low) & (calls.start < high) & is_among(calls.thread, numbers)
    )
    count = len(rows)
    if count > most:
        length = calls.end[rows] - calls.start[rows]
        # argpartition: the longest ones without sorting millions of calls by length.
        rows = np.sort(rows[np.argpartition(length, count - most)[count - most :]])
    name, codes = encode_column(calls.name[rows])
    names = tuple(API_VERSION.sub("", activity.names[int(code)]) for code in codes)
    lane = np.zeros(len(rows), np.int64)
    for place, number in enumerate(numbers):
        lane[calls.thread[rows] == number] = place
    start = np.maximum(calls.start[rows], low)
    return Marks(start + offset, calls.end[rows] + offset, name, lane, names), count - len(rows)


def draw_stacks(activity: Activity, stacks: Sequence[HostStacks], offset: int) -> tuple[Marks, int]:
    """(marks, number left out) of the functions of the thread that launches most work; without
    samples of Python, of the pauses in which the host launched nothing and the GPU idled.
    """
    python = next((sampled for sampled in stacks if sampled.kind == "Python"), None)
    stretches = _find_stretches(activity, python) if python else None
    if stretches is None:
        gaps = find_gaps(activity).of(STALL)
        code = np.zeros(len(gaps.start), np.int64)
        stretches = gaps.start, gaps.end, code, (PAUSE,)
    start, end, code, names = stretches
    longest = np.argsort(start - end, kind="stable")[:MOST_STACKS]
    rows = np.sort(longest)
    lane = np.zeros(len(rows), np.int64)
    marks = Marks(start[rows] + offset, end[rows] + offset, code[rows], lane, names)
    return marks, len(start) - len(rows)


def _find_stretches(
    activity: Activity, stacks: HostStacks
) -> tuple[IntArray, IntArray, IntArray, tuple[str, ...]] | None:
    """(start, end, code, names): neighbouring samples with one function are one stretch.

    A sample stands for the time to the next one, but for twice the usual time at most.
    """
    counts = {
        number: int(np.count_nonzero(stacks.thread == number)) for number in activity.launchers
    }
    busiest = max(counts, key=lambda number: (counts[number], number), default=NO_CALL)
    rows = np.flatnonzero(stacks.thread == busiest)
    if len(rows) < 2:
        return None
    labels = [top_functions([stack])[0][0] if stack else "" for stack in stacks.stacks]
    names = tuple(dict.fromkeys(labels))
    place = np.array([names.index(label) for label in labels], np.int64)
    time, code = stacks.time[rows], place[stacks.stack[rows]]
    usual = int(np.median(np.diff(time)))
    until = np.minimum(np.r_[time[1:], time[-1] + usual], time + MOST_PERIODS * usual)
    first = np.flatnonzero(np.r_[True, (code[1:] != code[:-1]) | (time[1:] > until[:-1])])
    last = np.r_[first[1:], len(rows)] - 1
    return time[first], until[last], code[first], names
