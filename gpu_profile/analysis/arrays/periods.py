"""Find a delay that some steps have, and whether it comes every n steps.

A data loader with too few workers and a checkpoint delay every n-th step.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray

# A delay must repeat at least three times, in 80 % of its steps. A late step by chance fits no n.
# Delays differ: each must reach an eighth of the usual one. A host that is far ahead hides part.
FEWEST_TIMES, ALIKE, LEAST_PART = 3, 0.8, 1 / 8
LEAST_NS = 1_000_000
# The search takes time quadratic in the number of steps, and 1000 steps show every period.
MOST_STEPS = 1000
# An evaluation with its start of workers takes up to four of 26 steps (Hugging Face Trainer).
MOST_SINGLE = 0.2


@dataclass(frozen=True)
class Period:
    """Every `n`-th step from step `first` (counted from 0) takes `late_ns` ns, the other steps
    `usual` ns; both are medians.
    """

    n: int
    first: int
    late_ns: float
    usual: float

    def __str__(self) -> str:
        """For example "every 4th step has 100.30 ms of it, the others 0.20 ms"."""
        late, usual = self.late_ns / 1e6, self.usual / 1e6
        step = f"every {_spell_ordinal(self.n)} step"
        return f"{step} has {late:.2f} ms of it, the others {usual:.2f} ms"


@dataclass(frozen=True)
class Rare:
    """`count` of `total` steps take `late_ns` ns, the others `usual` ns; both are medians."""

    count: int
    total: int
    late_ns: float
    usual: float

    def __str__(self) -> str:
        """For example "2 of 14 steps have 23.77 ms of it, the others 0.00 ms"."""
        late, usual = self.late_ns / 1e6, self.usual / 1e6
        steps = f"{self.count} of {self.total} steps"
        return f"{steps} have {late:.2f} ms of it, the others {usual:.2f} ms"


def find_rare(values: IntArray, least: int = LEAST_NS) -> Rare | None:
    """The few steps that are late, where at least two of them are alike; else None.

    A short recording holds a delay of every 5th step twice, which proves no period. One late step
    may be chance. `values` are ns by step; `least` is the shortest delay that counts.
    """
    usual = float(np.median(values)) if len(values) else 0.0
    late = values[values >= max(usual + least, usual + (values.max(initial=0) - usual) / 2)]
    if len(late) < 2 or 2 * len(late) >= len(values) or late.min() < 2 * usual:
        return None
    return Rare(len(late), len(values), float(np.median(late)), usual)


def find_single(values: IntArray, least: int = LEAST_NS) -> NDArray[np.bool_]:
    """A mask of the late steps that do not prove that they come again.

    An evaluation and the end of a training are two delays, and not alike. Late neighbours are one
    delay. Each pass takes the delays of the largest size, until one is left that repeats.
    """
    single, usual = np.zeros(len(values), bool), float(np.median(values)) if len(values) else 0.0
    while True:
        regular = np.where(single, usual, values).astype(np.int64)
        late = _find_large_delays(regular, usual, least)
        delays = int(np.sum(late & ~np.r_[False, late[:-1]]))
        many = delays >= FEWEST_TIMES or np.sum(single | late) > MOST_SINGLE * len(values)
        if not delays or many or find_rare(regular, least):
            return single
        # The search for a period takes most time: 0.2 s for 1000 uneven steps.
        if period := find_period(regular, least):
            late &= regular > period.late_ns / LEAST_PART
        if not late.any():
            return single
        single |= late


def _find_large_delays(values: IntArray, usual: float, least: int) -> NDArray[np.bool_]:
    """A mask of the late steps next to each other of which one reaches an eighth of the latest."""
    late = values >= max(2 * usual, usual + least)
    group = np.cumsum(np.r_[False, late[1:] != late[:-1]]) if len(values) else late.astype(np.int64)
    size = np.zeros(int(group.max(initial=0)) + 1)
    np.maximum.at(size, group, values)
    return np.asarray(late & (size[group] >= usual + LEAST_PART * (values.max(initial=0) - usual)))


def find_period(values: IntArray, least: int = LEAST_NS) -> Period | None:
    """The shortest n such that every n-th value is high and the others are low, or None.

    `values` are ns by step. At least 80 % of the n-th ones are clearly above the others' median,
    and as many of the others are below the middle between the two groups' medians, which are at
    least `least` ns apart.
    """
    values = values[:MOST_STEPS]
    return _search_period(values.tobytes(), values.dtype.str, least)


# The rules ask for the same steps again: 71 times for 5 series in a run of 8 ranks, 1 ms each.
@lru_cache(maxsize=64)
def _search_period(series: bytes, kind: str, least: int) -> Period | None:
    values = np.frombuffer(series, kind)
    if len(values) < 2 * FEWEST_TIMES or values.max() - values.min() < least:
        return None
    # At least half of the values are of usual steps, so their median is at least the lower
    # quartile.
    least_usual = float(np.quantile(values, 0.25, method="lower"))
    for n in range(2, len(values) // FEWEST_TIMES + 1):
        rounds = values[: len(values) // n * n].reshape(-1, n)
        medians = np.median(rounds, axis=0)
        first = int(np.argmax(medians))
        if medians[first] >= max(2 * least_usual, least_usual + least) and (
            period := _fit_period(values, n, first, least)
        ):
            return period
    return None


def _fit_period(values: IntArray, n: int, first: int, least: int) -> Period | None:
    """The period of n steps that starts at step `first`, or None if the values do not fit it."""
    is_nth = np.arange(len(values)) % n == first
    late, usual = float(np.median(values[is_nth])), float(np.median(values[~is_nth]))
    middle = (late + usual) / 2
    clear = min(middle, usual + max(least, LEAST_PART * (late - usual)))
    high, low = values[is_nth] > clear, values[~is_nth] < middle
    steady = high.mean() >= ALIKE and low.mean() >= max(ALIKE, 1 - 0.5 / n)
    apart = late - usual >= least and late >= 2 * usual
    return Period(n, first, late, usual) if apart and steady else None


def _spell_ordinal(number: int) -> str:
    teens = 10 <= number % 100 <= 20
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
