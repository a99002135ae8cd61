"""Student's t test on pairs of runs, each of the base and the new program, one after the other.

Clocks, temperature and neighbours change slowly, so that two runs in turn share them. The spread
of the pairs' own differences is the noise, and nothing is assumed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.compare.significance import t_quantile

FALSE_ALARMS = 0.01
"""The chance that one figure of an unchanged program is called slower; two figures have 2 %."""
FEWEST_PAIRS = 3
MOST_PAIRS = 100
"""Nobody records more pairs for one change."""


@dataclass(frozen=True)
class PairedDifference:
    """`change` of the new program against the base (0.1 is 10 % longer): the mean of the pairs.

    `low` to `high` is its interval, which excludes 0 if the one-sided test at FALSE_ALARMS does.
    `noise` is the largest change that the pairs' spread explains. `spread` is the standard
    deviation of the pairs' differences.
    """

    change: float
    low: float
    high: float
    noise: float
    spread: float

    @property
    def significant(self) -> bool:
        return self.low > 0 or self.high < 0


def compare_pairs(base: Sequence[float], new: Sequence[float]) -> PairedDifference | None:
    """Compare the medians of runs, the first of the base with the first of the new program, …

    None with fewer than FEWEST_PAIRS pairs, or where a run takes no time.
    """
    if len(base) < FEWEST_PAIRS or len(base) != len(new) or min(*base, *new) <= 0:
        return None
    # The logarithm: 10 -> 11 ms and 11 -> 10 ms are one difference with two signs.
    logs = np.log(np.asarray(new, np.float64) / np.asarray(base, np.float64))
    mean, spread = float(np.mean(logs)), float(np.std(logs, ddof=1))
    noise = t_quantile(FALSE_ALARMS, len(logs) - 1) * spread / math.sqrt(len(logs))
    return PairedDifference(
        change=math.expm1(mean),
        low=math.expm1(mean - noise),
        high=math.expm1(mean + noise),
        noise=math.expm1(noise),
        spread=spread,
    )


def count_pairs_to_find(change: float, spread: float) -> int | None:
    """How many pairs have less noise than `change`, if their differences spread so (fractions).

    None for more than MOST_PAIRS.
    """
    for pairs in range(FEWEST_PAIRS, MOST_PAIRS + 1):
        noise = t_quantile(FALSE_ALARMS, pairs - 1) * spread / math.sqrt(pairs)
        if math.expm1(noise) < change:
            return pairs
    return None
