"""Sampled stacks of the threads that launch one rank's work, in its steady part."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.idle.gaps import LAUNCH, STALL, find_gaps
from gpu_profile.analysis.activity.start_up import steady_window
from gpu_profile.analysis.arrays.columns import is_among
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.host.stacks import HostStacks, load_stacks
from gpu_profile.analysis.store.database import Database

HOST_CAUSES = (LAUNCH, STALL)


@dataclass(frozen=True)
class HostSamples:
    """Samples by stack: (function names from outermost to innermost, samples, samples while the
    GPU idled), the most frequent first.
    """

    rank: int
    kind: str = ""
    stacks: tuple[tuple[tuple[str, ...], int, int], ...] = ()


def samples_of(activities: Sequence[Activity], database: Database) -> list[HostSamples]:
    """The samples of each rank and kind ("Python", "CPU"), without empty ones."""
    ranks = [
        host_samples(activity, stacks)
        for activity in activities
        for stacks in load_stacks(database)
    ]
    return [samples for samples in ranks if samples.stacks]


def host_samples(activity: Activity, stacks: HostStacks) -> HostSamples:
    """The samples of one rank's launching threads after start-up."""
    first, last = steady_window(activity)
    within = (stacks.time >= first) & (stacks.time < last)
    chosen = np.flatnonzero(within & is_among(stacks.thread, activity.launchers))
    gaps = find_gaps(activity)
    late = is_among(gaps.cause, HOST_CAUSES)
    owner = activity.launcher_of(gaps.next_op)
    idle = samples_in(stacks, gaps.start[late], gaps.end[late], owner[late])
    names = [
        tuple(f"{frame.function} ({frame.name_of_file})" for frame in s) for s in stacks.stacks
    ]
    counts = Counter(names[index] for index in stacks.stack[chosen].tolist())
    idle_counts = Counter(names[i] for i in stacks.stack[np.intersect1d(chosen, idle)].tolist())
    ordered = sorted(counts, key=lambda stack: (-counts[stack], stack))
    counted_stacks = tuple((stack, counts[stack], idle_counts[stack]) for stack in ordered)
    return HostSamples(activity.rank, stacks.kind, counted_stacks)


def samples_in(stacks: HostStacks, start: IntArray, end: IntArray, thread: IntArray) -> IntArray:
    """The indexes of the samples inside these gaps (sorted by start), each on its gap's thread."""
    if not len(stacks) or not len(start):
        return np.empty(0, np.int64)
    near = np.maximum(np.searchsorted(start, stacks.time, side="right") - 1, 0)
    inside = (stacks.time >= start[near]) & (stacks.time < end[near])
    return np.flatnonzero(inside & (stacks.thread == thread[near]))
