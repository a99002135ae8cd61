"""The steps that all ranks have, and how many of them are warm-up."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.steps.step_ranges import FEWEST_STEPS
from gpu_profile.analysis.activity.steps.steps import NO_STEPS, Steps
from gpu_profile.analysis.arrays.types import IntArray

CAP_QUANTILE = 0.9
"""One slow step in ten is no part of a mean, and must not look like a trend."""
EARLY, LONGER = 1 / 20, 2
"""Of the steps, the first ones. A delay in these that makes a step LONGER times as long as any
later one is of the start-up: JAX compiles what the last of the first 160 parts of a batch calls."""


def first_steady(duration: IntArray) -> int:
    """How many leading steps to drop as warm-up, given the time of each step.

    The first step is dropped if more than FEWEST_STEPS are there, because caches are cold and the
    profiler allocates its buffers in it. Further leading steps are dropped while they last over
    1.5 times the median, up to a quarter of all steps: a run that never settles must keep some.
    Those up to the last start-up delay (EARLY) are dropped, too.
    """
    if len(duration) <= FEWEST_STEPS:
        return 0
    typical = float(np.median(duration[1:]))
    drop = 1
    while drop < len(duration) // 4 and duration[drop] > 1.5 * typical:
        drop += 1
    return max(drop, _count_starting(duration))


def _count_starting(duration: IntArray) -> int:
    """How many leading steps there are up to the last one with a delay that never comes again."""
    early = int(EARLY * len(duration))
    slow = np.flatnonzero(duration[:early] > LONGER * duration[early:].max())
    return int(slow[-1]) + 1 if len(slow) else 0


def warm_up(ranks: Sequence[Steps]) -> int:
    """How many leading steps to leave out on every rank, by the slowest rank of each step."""
    return first_steady(find_slowest(ranks))


def find_slowest(ranks: Sequence[Steps]) -> IntArray:
    """The time (ns) of the slowest rank in each step that all ranks with steps have."""
    times = [
        (steps.end - steps.start)[first:stop]
        for steps, (first, stop) in zip(ranks, common_steps(ranks), strict=True)
        if stop > first
    ]
    return np.max(times, axis=0) if times else np.empty(0, np.int64)


def common_steps(ranks: Sequence[Steps]) -> tuple[tuple[int, int], ...]:
    """For each rank (first, last + 1) of the steps that every rank with steps has.

    A rank can have one step more at the edges of its recording. (0, 0) for a rank without steps.
    Where one rank has a step after another one's last, that last one has no known end: an
    evaluation after it would count on one rank only. So it is left out. So is the last iteration of
    an engine, which a recording ends anywhere in: of one of 10.2 ms 0.5 ms were left.
    """
    lead = max((steps for steps in ranks if len(steps)), key=len, default=NO_STEPS)
    shifts = [_find_shift(lead, steps) for steps in ranks]
    with_steps = [
        (shift, len(steps)) for shift, steps in zip(shifts, ranks, strict=True) if len(steps)
    ]
    low = max((shift for shift, _ in with_steps), default=0)
    ends = [shift + size for shift, size in with_steps]
    high = min(ends, default=0)
    is_cut = lead.are_iterations or max(ends, default=0) > high
    if is_cut and high > low + FEWEST_STEPS:
        high -= 1
    # the recordings do not overlap in time: use as many first steps as all ranks have
    if high <= low:
        return tuple(
            (0, min((size for _, size in with_steps), default=0)) if len(s) else (0, 0)
            for s in ranks
        )
    return tuple(
        (low - shift, high - shift) if len(steps) else (0, 0)
        for shift, steps in zip(shifts, ranks, strict=True)
    )


def _find_shift(lead: Steps, steps: Steps) -> int:
    """The index in `lead` of the first step of `steps`, by their numbers, else by the smallest
    distance in time.

    Shift 0 is preferred by half a step, because most ranks begin with the same step.
    """
    if not len(steps):
        return 0
    if len(lead.number) and len(steps.number):
        return int(steps.number[0] - lead.number[0])
    typical = float(np.median(lead.end - lead.start))
    guess = int(np.searchsorted(lead.start, steps.start[0]))
    apart: dict[int, float] = {
        shift: _measure_distance(lead, steps, shift) - (typical / 2 if shift == 0 else 0)
        for shift in {0, *range(guess - 2, guess + 3)}
        if -len(steps) < shift < len(lead)
    }
    best = min(apart, default=0, key=lambda shift: (apart[shift], abs(shift)))
    # If even the best shift is off by more than a step, the clocks are not aligned: pair first
    # with first.
    return best if apart and apart[best] <= typical else 0


def _measure_distance(lead: Steps, steps: Steps, shift: int) -> float:
    mine, theirs = steps.start[max(0, -shift) :], lead.start[max(0, shift) :]
    size = min(len(mine), len(theirs))
    return float(np.median(np.abs(mine[:size] - theirs[:size])))
