"""The steps of a recording that are like all of its steady steps."""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.steps.common_steps import CAP_QUANTILE
from gpu_profile.analysis.arrays.periods import FEWEST_TIMES
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.step_times import SETTLING

ALIKE_STEPS, SLOW, VERY_SLOW = 0.05, 1.5, 3.0
"""Means of steps that differ by less are alike. One slow step in ten is no part of the mean, unless
FEWEST_TIMES steps take SLOW times the median: a log in each tenth step is a part of it. A step that
is VERY_SLOW does something else."""


def typical_step(lengths: IntArray) -> float:
    """The mean of steps, without those that are slow by chance."""
    is_habit = np.count_nonzero(lengths > SLOW * np.median(lengths)) >= FEWEST_TIMES
    return float((lengths if is_habit else leave_out_slow(lengths)).mean())


def leave_out_slow(lengths: IntArray) -> IntArray:
    """The lengths, with the slowest tenth as short as the one before it."""
    return np.minimum(lengths, np.int64(np.quantile(lengths, CAP_QUANTILE)))


def find_typical_steps(lengths: IntArray, count: int) -> int:
    """The first of `count` steps that are like all: with as much of slow steps, if there are such.

    Of a slow step in each twentieth, some hold one and others none: rare ones are told apart. Of
    very slow steps that come less than once in `count`, they hold none: the first of 126 rounds
    draws the numbers of all.
    """
    errors = _measure_errors(lengths, typical_step(lengths), count)
    if errors.min() > ALIKE_STEPS:
        errors = _prefer_usual(errors, lengths, count)
    without_rare = np.where(_find_rare(lengths, count), np.inf, errors)
    return _choose_least(without_rare if np.isfinite(without_rare).any() else errors)


def _prefer_usual(
    errors: NDArray[np.float64], lengths: IntArray, count: int
) -> NDArray[np.float64]:
    """The errors of steps that are like all without slow ones: of a slow step in each twentieth,
    each twenty steps hold one, and the first one may be twice as slow. Without such steps, the
    errors without slow ones.
    """
    usual = leave_out_slow(lengths)
    others = _measure_errors(usual, float(usual.mean()), count)
    are_alike = others <= ALIKE_STEPS
    return np.where(are_alike, errors, np.inf) if are_alike.any() else others


def _find_rare(lengths: IntArray, count: int) -> Flags:
    """Whether `count` steps hold a very slow one, by the first of them; False where these are not
    rare, or too few to tell.
    """
    slow = lengths > VERY_SLOW * np.median(lengths)
    sums = np.r_[0, np.cumsum(slow)]
    is_rare = sums[-1] >= FEWEST_TIMES and sums[-1] * count < len(lengths)
    return np.asarray((sums[count:] > sums[:-count]) & is_rare, np.bool_)


def choose_steps(lengths: IntArray, typical: float, least: int, most: int) -> tuple[int, int]:
    """(first, count) of the steps to replay: the fewest, from `least` to `most`, of which some are
    like the typical one; else `least` steps whose mean is nearest to it.

    A pause in each tenth step is in one of the 7 steps that are measured of 10, or in none. Of 14
    steps it is in one of 10.
    """
    for count in range(least, most + 1):
        errors = _measure_errors(lengths, typical, count)
        if errors.min() <= ALIKE_STEPS:
            return _choose_least(errors), count
    return _choose_least(_measure_errors(lengths, typical, least)), least


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
