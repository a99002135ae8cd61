"""Whether two sets of per-step times differ, or only seem to. Deterministic: the seed is fixed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]

RESAMPLES, SEED = 4000, 20_2511
CONFIDENCE = 0.99
# With fewer steps the interval of a median is a guess.
FEWEST = 5
# Clocks, temperature and neighbours move the same program by about a percent between runs.
LEAST_NOISE = 0.01


@dataclass(frozen=True)
class Difference:
    """`change` of the median, new against base (0.1 is 10 % longer), its confidence interval
    `low` to `high`, and `noise`: how much the medians of a run's own halves differ."""

    change: float
    low: float
    high: float
    noise: float

    @property
    def significant(self) -> bool:
        """The interval excludes no change, and the runs' own drift cannot explain it."""
        return (self.low > 0 or self.high < 0) and abs(self.change) > self.noise


def difference(base: Samples, new: Samples) -> Difference | None:
    """Compare medians by a block bootstrap (Künsch 1989): neighbouring steps resemble each other,
    so blocks of about n^(1/3) are drawn, not single steps. None with fewer than FEWEST samples."""
    if min(len(base), len(new)) < FEWEST or not np.median(base) > 0:
        return None
    random = np.random.default_rng(SEED)
    ratios = _medians(new, random) / _medians(base, random) - 1
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(ratios, (tail, 1 - tail))
    change = float(np.median(new) / np.median(base) - 1)
    noise = max(LEAST_NOISE, _drift(base), _drift(new))
    return Difference(change, float(low), float(high), noise)


def _medians(samples: Samples, random: np.random.Generator) -> Samples:
    """The medians of RESAMPLES draws in circular blocks."""
    count = len(samples)
    size = max(1, round(count ** (1 / 3)))
    starts = random.integers(0, count, (RESAMPLES, -(-count // size)))
    rows = (starts[:, :, None] + np.arange(size)).reshape(RESAMPLES, -1)[:, :count] % count
    return np.asarray(np.median(samples[rows], axis=1))


def _drift(samples: Samples) -> float:
    """How much a run differs from itself: its first half's median against its second's."""
    middle = len(samples) // 2
    halves = np.median(samples[:middle]), np.median(samples[middle:])
    return float(abs(halves[1] - halves[0]) / np.median(samples))
