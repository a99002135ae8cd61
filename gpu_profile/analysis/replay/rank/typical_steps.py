"""The steps of a recording that are like all of its steady steps."""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.common_steps import CAP_QUANTILE
from gpu_profile.analysis.arrays.periods import FEWEST_TIMES
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.step_times import SETTLING

ALIKE_STEPS, SLOW = 0.05, 1.5
"""Means of steps that differ by less are alike. One slow step in ten is no part of the mean, unless
FEWEST_TIMES steps take SLOW times the median: a log in each tenth step is a part of it."""


def typical_step(lengths: IntArray) -> float:
    """The mean of steps, without those that are slow by chance."""
    is_habit = np.count_nonzero(lengths > SLOW * np.median(lengths)) >= FEWEST_TIMES
    return float((lengths if is_habit else leave_out_slow(lengths)).mean())


def leave_out_slow(lengths: IntArray) -> IntArray:
    """The lengths, with the slowest tenth as short as the one before it."""
    return np.minimum(lengths, np.int64(np.quantile(lengths, CAP_QUANTILE)))


def find_typical_steps(lengths: IntArray, count: int) -> int:
    """The first of `count` steps that are like all: with as much of slow steps, if there are such.

    Of a slow step in each twentieth, some hold one and others none: rare ones are told apart.
    """
    errors = _measure_errors(lengths, typical_step(lengths), count)
    if errors.min() > ALIKE_STEPS:
        usual = leave_out_slow(lengths)
        errors = _measure_errors(usual, float(usual.mean()), count)
    return _choose_least(errors)


def choose_steps(lengths: IntArray, typical: float, count: int) -> int:
    """The first of `count` steps: of all if their mean is near the typical one, else of those whose
    mean is nearest. Of a pause in each fifth step, six steps can hold one or two.
    """
    return _choose_least(_measure_errors(lengths, typical, count))


def _measure_errors(lengths: IntArray, typical: float, count: int) -> NDArray[np.float64]:
    """How far the mean of `count` steps is from the typical step, by the first of them.

    A length is from first operation to first operation, a replayed step from last to last: a pause
    before the first one is in the step before, or in this one. The farther of both counts.
    """
    sums, settled = np.r_[0, np.cumsum(lengths)], 1 + (count - 1) // SETTLING
    begins = np.arange(len(lengths) - count + 1)
    totals = [sums[begins + count - early] - sums[begins + settled - early] for early in (0, 1)]
    errors = np.abs(np.array(totals) / ((count - settled) * typical) - 1)
    return np.asarray(errors.max(axis=0), np.float64)


def _choose_least(errors: NDArray[np.float64]) -> int:
    # Rounded: of steps that are about as good, the first ones on every machine.
    return 0 if errors[0] <= ALIKE_STEPS else int(np.argmin(np.round(errors, 2)))
