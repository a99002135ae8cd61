"""A delay that comes back in every n-th step: a loader's workers, a checkpoint, a log line."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray

# Three times is a habit; a late step now and then falls out of time with any n.
FEWEST_TIMES, ALIKE = 3, 0.8
LEAST_NS = 1_000_000


@dataclass(frozen=True)
class Period:
    """Every `n`-th step, of which the first is `first` (counted from 0), has `late` ns of it, the
    other steps `usual` ns (medians)."""

    n: int
    first: int
    late: float
    usual: float

    def __str__(self) -> str:
        """ "every 4th step has 100.30 ms of it, the others 0.20 ms"."""
        late, usual = self.late / 1e6, self.usual / 1e6
        return f"every {_ordinal(self.n)} step has {late:.2f} ms of it, the others {usual:.2f} ms"


def find_period(values: IntArray) -> Period | None:
    """The shortest n such that every n-th value is high and the others are low; None for none.

    `values`: ns a step. At least 80 % of the n-th values are above the middle between the two
    groups' medians and as many of the others below, and the medians are a millisecond apart.
    """
    for n in range(2, len(values) // FEWEST_TIMES + 1):
        phase = np.arange(len(values)) % n
        means = [float(np.median(values[phase == first])) for first in range(n)]
        first = int(np.argmax(means))
        late, usual = means[first], float(np.median(values[phase != first]))
        middle = (late + usual) / 2
        high, low = values[phase == first] > middle, values[phase != first] < middle
        steady = high.mean() >= ALIKE and low.mean() >= max(ALIKE, 1 - 0.5 / n)
        if late - usual >= LEAST_NS and late >= 2 * usual and steady:
            return Period(n, first, late, usual)
    return None


def _ordinal(number: int) -> str:
    teens = 10 <= number % 100 <= 20
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
