"""Student's t test for the difference between two sets of runs.

Runs of one unchanged program differ by more than their steps do: clocks, temperature, neighbours
and memory layout stay the same during a run and change from run to run. So each run counts as one
sample, its median step time. The result is deterministic, because the seed is fixed.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]

RESAMPLES, SEED = 4000, 20_2511
# The chance that an unchanged program is called slower (one side of the test). With 1 %, three
# runs a side with 20 steps each would miss a fifth of all programs that are 10 % slower.
ERROR = 0.0125
# With fewer than 5 steps the median of a run is not reliable.
FEWEST = 5
# With fewer runs the t quantile is too large to find a regression: at 1.25 % it is 25.5 for three
# runs and 6.2 for four.
FEWEST_RUNS = 4
ASSUMED_SPREAD = 0.03
# Nobody records more runs a side than that for one change.
MOST_RUNS = 100


@dataclass(frozen=True)
class Difference:
    """`change` of the mean of the runs' medians, new against base (0.1 is 10 % longer).

    `low` to `high` is its interval, which excludes 0 if the one-sided test at ERROR does. `noise`
    is the largest change that the spread explains. `spread` is the standard deviation between runs
    of one side (0.03 is 3 % of the base), measured or, with `is_assumed`, assumed.
    """

    change: float
    low: float
    high: float
    noise: float
    spread: float
    is_assumed: bool

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0, that is no change."""
        return self.low > 0 or self.high < 0


def compare_medians(
    base: Sequence[Samples], new: Sequence[Samples], assumed: float = ASSUMED_SPREAD
) -> Difference | None:
    """Compare the medians of runs, given each run's samples, by Student's t test with one spread
    for both sides.

    With fewer than FEWEST_RUNS runs the spread is `assumed`, unless the runs or their steps show
    a larger one. None where a run has fewer than FEWEST samples or takes no time.
    """
    runs = (*base, *new)
    if min(map(len, runs)) < FEWEST or not all(np.median(run) > 0 for run in runs):
        return None
    before, after = (np.array([np.median(run) for run in side]) for side in (base, new))
    usual, freedom = float(before.mean()), len(runs) - 2
    change = float(after.mean()) / usual - 1
    spread, limit = _pooled_spread((before, after), freedom) / usual, t_quantile(ERROR, freedom)
    if few := len(runs) < FEWEST_RUNS:
        spread = max(assumed, spread, *map(_median_error, runs))
        # The limit is relative to the faster side, so that 10 -> 11 ms and 11 -> 10 ms are judged
        # alike.
        limit = t_quantile(ERROR, math.inf) * min(1.0, 1 + change)
    noise = limit * spread * math.sqrt(1 / len(base) + 1 / len(new))
    return Difference(change, change - noise, change + noise, noise, spread, few)


def count_runs_to_find(change: float, spread: float) -> int | None:
    """How many runs a side have less noise than `change`, if runs differ by `spread` (fractions).

    None for more than MOST_RUNS.
    """
    # FEWEST_RUNS counts the runs of both sides.
    for runs in range(FEWEST_RUNS // 2, MOST_RUNS + 1):
        noise = t_quantile(ERROR, 2 * runs - 2) * spread * math.sqrt(2 / runs)
        if noise < change:
            return runs
    return None


def _pooled_spread(sides: Sequence[Samples], freedom: int) -> float:
    """The pooled standard deviation within the sides; 0 with one run on each side."""
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in sides)
    return math.sqrt(squares / freedom) if freedom else 0.0


def t_tail(t: float, freedom: float) -> float:
    """The probability that Student's t exceeds `t` (0 or more); `freedom` is a whole number or
    inf.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    if math.isinf(freedom):
        return math.erfc(t / math.sqrt(2)) / 2
    angle, odd = math.atan(t / math.sqrt(freedom)), int(freedom) % 2
    cosine, sine = math.cos(angle), math.sin(angle)
    term = total = cosine if odd else 1.0
    for k in range(3 if odd else 2, int(freedom) - 1, 2):
        term *= (k - 1) / k * cosine**2
        total += term
    if not odd:
        return (1 - sine * total) / 2
    inside = angle + sine * total if freedom > 1 else angle
    return 0.5 - inside / math.pi


@functools.cache
def t_quantile(tail: float, freedom: float) -> float:
    """The t exceeded with probability `tail`: 2.326 for (0.01, inf), 3.747 for (0.01, 4)."""
    if freedom < 1:
        return math.inf
    low, high = 0.0, 1e6
    # 1e6 halved 100 times is below the last digit of a float.
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, freedom) > tail else (low, middle)
    return (low + high) / 2


def _median_error(run: Samples) -> float:
    """The standard error of a run's median by its steps, as a fraction of the median."""
    medians = _draw_medians(run, np.random.default_rng(SEED))
    return float(np.std(medians) / np.median(run))


def _draw_medians(samples: Samples, random: np.random.Generator) -> Samples:
    """Medians of RESAMPLES bootstrap samples in circular blocks (Künsch 1989).

    Neighbouring steps are correlated, so blocks of about n^(1/3) steps are drawn, not single
    steps.
    """
    count = len(samples)
    # n^(1/3): the length that has the least error of a variance (Künsch 1989; Hall et al. 1995).
    size = max(1, round(count ** (1 / 3)))
    starts = random.integers(0, count, (RESAMPLES, -(-count // size)))
    rows = (starts[:, :, None] + np.arange(size)).reshape(RESAMPLES, -1)[:, :count] % count
    return np.asarray(np.median(samples[rows], axis=1))
