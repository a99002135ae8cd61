"""Choose the steady steps of one rank that are replayed."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import NO_CALL, Activity
from gpu_profile.analysis.activity.steps.common_steps import CAP_QUANTILE, first_steady
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.place_on_gpu import find_op_steps
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.rank.typical_steps import find_typical_steps

MOST_STEPS, LEAST_STEPS = 20, 3
START_STEPS = 20
"""The start of a program, as the marks count it (ending.py): compilers, autotuning, first files."""
SPARE_STEPS = 2
"""Ranks differ in how many steps they warm up."""
ENOUGH_OPS, MOST_OPS = 20_000, 50_000
"""Operations: more steps than LEAST_STEPS are kept up to the first number (a graph of 2 MB) over
the number of ranks, no steps beyond the second one. Python replays some 5 us each."""
MOST_RANKS = 16
"""The ranks of a larger run that are replayed: see run/choose_ranks.py."""


@dataclass(frozen=True, eq=False)
class Window:
    """`count` steps from `first`. `begin` and `end`: when the host began with the first of them
    and ended the last one. `lead`: when it began the step before. `edges`: the begin of each step
    and `end`. All in ns on the report's clock.
    """

    first: int
    count: int
    lead: int
    edges: IntArray

    @property
    def begin(self) -> int:
        return int(self.edges[0])

    @property
    def end(self) -> int:
        return int(self.edges[-1])

    def steps_of(self, time: IntArray) -> IntArray:
        """The index in the window of the step at each host time: negative before, `count` after."""
        return np.searchsorted(self.edges, time, "right") - 1


def choose_window(activity: Activity, ranks: int = 1) -> Window | str:
    """Steady steps that are like all, as many as are replayed in a run of so many ranks; or why
    there is no window.
    """
    steps = find_steps(activity)
    drop = first_steady(steps.end - steps.start)
    drop, stop = _find_stretch(steps.empty_ns, drop, len(steps))
    left = stop - drop
    if left < LEAST_STEPS:
        return f"{left} steady steps, the replay needs {LEAST_STEPS}" if left else "no steps"
    if activity.leader is not None:
        return "its process drives several GPUs"
    if len(activity.seams):
        return "its recording is of several windows"
    drop = _choose_begin(activity, steps, drop, stop, ranks)
    left = stop - drop
    step = find_op_steps(activity, steps.host_start, steps.host_end)
    sizes = np.cumsum(np.bincount(step[step >= drop] - drop, minlength=left))
    if sizes[LEAST_STEPS - 1] > MOST_OPS:
        return f"{LEAST_STEPS} steps have more than {MOST_OPS:,} GPU operations"
    few = int(np.searchsorted(sizes, ENOUGH_OPS / min(ranks, MOST_RANKS), "right"))
    spare = LEAST_STEPS + SPARE_STEPS
    spare = min(spare, int(np.searchsorted(sizes, MOST_OPS, "right")), left)
    count = min(MOST_STEPS, max(spare, few))
    start = steps.host_start[drop : drop + count]
    end = int(steps.host_end[drop + count - 1]) + 1
    lead = int(steps.host_start[max(0, drop - 1)])
    return Window(drop, count, lead, np.r_[start, end])


def _choose_begin(activity: Activity, steps: Steps, first: int, stop: int, ranks: int) -> int:
    """The first of the steps that are replayed, of the steady ones from `first` on.

    A program slows down and speeds up: files that are not in memory yet, other programs beside it.
    Ranks of one run have to choose the same steps, so they leave out what is usually the start.
    """
    if ranks > 1:
        return first + count_start(steps.number[first:stop])
    if steps.are_iterations:
        return _choose_first(steps, _count_launches(activity, steps), first, stop)
    lengths = (steps.end - steps.start)[first:stop]
    return first + find_typical_steps(lengths, min(MOST_STEPS, len(lengths)))


def count_start(number: IntArray) -> int:
    """How many of these steps are the program's start, where at least as many are after it."""
    if not len(number) or number[-1] < 2 * START_STEPS - 1:
        return 0
    return int(np.searchsorted(number, START_STEPS))


def _find_stretch(unasked: IntArray, first: int, stop: int) -> tuple[int, int]:
    """The first MOST_STEPS steps, or the most, between which an engine always had requests."""
    pauses = np.flatnonzero(unasked[first:stop]) + first + 1
    edges = np.unique(np.r_[first, pauses, stop])
    sizes = np.minimum(np.diff(edges), MOST_STEPS)
    if not len(sizes):
        return first, stop
    place = int(np.argmax(sizes))
    return int(edges[place]), int(edges[place + 1])


def _count_launches(activity: Activity, steps: Steps) -> IntArray:
    """The calls by step that launch something: one of a graph, hundreds without."""
    called = activity.ops.call[activity.ops.call != NO_CALL]
    begins = np.sort(activity.calls.start[np.unique(called)])
    first, stop = (np.searchsorted(begins, edge) for edge in (steps.host_start, steps.host_end))
    return np.asarray(stop - first, np.int64)


def _choose_first(steps: Steps, launches: IntArray, first: int, stop: int) -> int:
    """The first of MOST_STEPS iterations of an engine that are most like all: by the shares of
    their kinds, their mean and their launches. The first ones of a server are mostly prompts.
    """
    count = min(MOST_STEPS, stop - first)
    time = (steps.end - steps.start)[first:stop].astype(np.float64)
    time = np.minimum(time, np.quantile(time, CAP_QUANTILE))
    kinds = steps.kind[first:stop]
    many = launches[first:stop] / max(float(launches[first:stop].mean()), 1.0)
    columns = [time / time.mean(), many, *(kinds == kind for kind in np.unique(kinds))]
    values = np.stack(columns, axis=1).astype(np.float64)
    sums = np.concatenate((np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)))
    means = (sums[count:] - sums[:-count]) / count
    errors = np.abs(means - values.mean(axis=0)).sum(axis=1)
    # Rounded: of windows that are about as good, the first one on every machine.
    return first + int(np.argmin(np.round(errors, 2)))
