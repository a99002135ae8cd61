"""The parts of the iterations near a quantile of their time, which sum to it."""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray

QUANTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99}
NEAR = 0.01
"""On each side of the quantile this part of the iterations counts, and at least the nearest one."""


def average_near(parts: IntArray, quantile: float) -> NDArray[np.float64]:
    """The mean parts (a row an iteration) of those near the quantile of the rows' sums."""
    order = np.argsort(parts.sum(axis=1), kind="stable")
    place = round(quantile * (len(order) - 1))
    reach = min(int(NEAR * len(order)), len(order) - 1 - place)
    chosen = parts[order[place - reach : place + reach + 1]]
    return np.asarray(chosen.mean(axis=0), np.float64)
