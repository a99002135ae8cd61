"""A rank's training steps: by an NVTX range that says so, else by the launches' repetition."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.nvtx_ranges import Ranges
from gpu_profile.analysis.activity.step_period import repeated_steps
from gpu_profile.analysis.activity.step_ranges import FEWEST_STEPS, named_steps
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray


@dataclass(frozen=True, eq=False)
class Steps:
    """`host_*`: when the host issued each step. `start`, `end`: when the GPU worked on it.

    A step lasts on the GPU from its first operation to the first one of the next step, so the
    steps' times add up and an idle gap belongs to the step before it. `source` says how they
    were found: "range NAME", "repetition of 291 launches", or "" for none; then there are no
    steps and `why_none` says why, e.g. "no 3 stretches of launches are alike". `confidence`: 1
    for steps by a range, else the part of the steps that launch what the typical one does.
    """

    source: str
    host_start: IntArray
    host_end: IntArray
    start: IntArray
    end: IntArray
    confidence: float = 1.0
    why_none: str = ""

    def __len__(self) -> int:
        return len(self.start)

    def moved(self, by: int) -> "Steps":
        """The same steps on a clock that is `by` ns ahead."""
        return replace(
            self,
            host_start=self.host_start + by,
            host_end=self.host_end + by,
            start=self.start + by,
            end=self.end + by,
        )


_NONE = np.empty(0, np.int64)
NO_STEPS = Steps("", _NONE, _NONE, _NONE, _NONE, confidence=0.0)


@once_each
def find_steps(activity: Activity) -> Steps:
    """The steps of one rank, in time order."""
    named = named_steps(activity.ranges)
    if named:
        return _on_gpu(activity, *named)
    if activity.leader is not None:
        led = find_steps(activity.leader)
        steps = _on_gpu(activity, led.source, led.host_start, led.host_end)
        return replace(steps, confidence=led.confidence, why_none=led.why_none)
    series = repeated_steps(activity)
    if isinstance(series, str):
        return replace(NO_STEPS, why_none=series)
    steps = _on_gpu(activity, series.source, series.start, series.end)
    return replace(steps, confidence=series.confidence)


def host_steps(ranges: Ranges) -> Steps:
    """The steps of a process without GPU work, as long as the host was at them."""
    named = named_steps(ranges)
    return Steps(*named, named[1], named[2]) if named else NO_STEPS


def _on_gpu(activity: Activity, source: str, host_start: IntArray, host_end: IntArray) -> Steps:
    """Steps before the first and behind the last GPU work (a capture that ends early) are
    dropped; one between without GPU work is empty."""
    ops = activity.ops
    step = step_of(activity.launched, host_start, host_end)
    # Ops are sorted by start: of a step's, written last to first, the earliest stays.
    first = np.full(len(host_start) + 1, -1)  # -1, no step, writes the one behind the last
    first[step[::-1]] = np.arange(len(step))[::-1]
    busy = np.flatnonzero(first[:-1] >= 0)
    if not len(busy):
        return NO_STEPS
    complete_steps = np.arange(busy[0], busy[-1] + 1)
    place = first[
        busy[np.searchsorted(busy, complete_steps)]
    ]  # of an empty step, the next one's first
    start = np.maximum.accumulate(ops.start[place])
    last_end = max(int(ops.end[step == complete_steps[-1]].max()), int(start[-1]))
    return Steps(
        source,
        host_start[complete_steps],
        host_end[complete_steps],
        start,
        np.r_[start[1:], last_end],
    )


def step_of(time: IntArray, start: IntArray, end: IntArray) -> IntArray:
    """The step that each host time falls into (a pause after a step counts to it), or -1."""
    place = np.searchsorted(start, time, side="right") - 1
    return np.where((place >= 0) & (time <= end[-1]), place, -1) if len(start) else place


def first_steady(duration: IntArray) -> int:
    """How many leading steps to drop, given each step's time (of the slowest rank).

    The first step of a capture starts the profiler's buffers and finds caches cold: it goes
    whenever enough are left. So do further leading ones while they last 1.5 times the typical
    step, up to a quarter of them: a run that never settles must not vanish.
    """
    if len(duration) <= FEWEST_STEPS:
        return 0
    typical = float(np.median(duration[1:]))
    drop = 1
    while drop < len(duration) // 4 and duration[drop] > 1.5 * typical:
        drop += 1
    return drop


def warm_up(ranks: Sequence[Steps]) -> int:
    """How many leading steps to leave out on every rank: judged by the slowest rank of each."""
    return first_steady(find_slowest(ranks))


def find_slowest(ranks: Sequence[Steps]) -> IntArray:
    """The slowest rank's time (ns) of each step that all ranks (with steps) have."""
    times = [
        (steps.end - steps.start)[first:behind]
        for steps, (first, behind) in zip(ranks, common_steps(ranks), strict=True)
        if behind > first
    ]
    return np.max(times, axis=0) if times else np.empty(0, np.int64)


def common_steps(ranks: Sequence[Steps]) -> tuple[tuple[int, int], ...]:
    """(first, behind the last) of the steps that every rank with steps has, on one clock.

    A rank may have a step more at the edges of its recording. (0, 0) without steps.
    """
    lead = max((steps for steps in ranks if len(steps)), key=len, default=NO_STEPS)
    shifts = [_shift(lead, steps) for steps in ranks]
    with_steps = [
        (shift, len(steps)) for shift, steps in zip(shifts, ranks, strict=True) if len(steps)
    ]
    low = max((shift for shift, _ in with_steps), default=0)
    high = min((shift + size for shift, size in with_steps), default=0)
    if high <= low:  # recordings of different times: no step is common
        return tuple(
            (0, min((size for _, size in with_steps), default=0)) if len(s) else (0, 0)
            for s in ranks
        )
    return tuple(
        (low - shift, high - shift) if len(steps) else (0, 0)
        for shift, steps in zip(shifts, ranks, strict=True)
    )


def _shift(lead: Steps, steps: Steps) -> int:
    """Which of the leading rank's steps is the first of this rank's: the nearest in time; the
    first where both have as many, unless another is nearer by half a step."""
    if not len(steps):
        return 0
    typical = float(np.median(lead.end - lead.start))
    guess = int(np.searchsorted(lead.start, steps.start[0]))
    apart: dict[int, float] = {
        shift: _apart(lead, steps, shift) - (typical / 2 if shift == 0 else 0)
        for shift in {0, *range(guess - 2, guess + 3)}
        if -len(steps) < shift < len(lead)
    }
    best = min(apart, default=0, key=lambda shift: (apart[shift], abs(shift)))
    # Recordings of other times, or clocks that nothing aligned: the first is the first.
    return best if apart and apart[best] <= typical else 0


def _apart(lead: Steps, steps: Steps, shift: int) -> float:
    mine, theirs = steps.start[max(0, -shift) :], lead.start[max(0, shift) :]
    size = min(len(mine), len(theirs))
    return float(np.median(np.abs(mine[:size] - theirs[:size])))
