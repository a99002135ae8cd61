"""How much time intervals cover, which come in parts."""

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray


class Cover:
    """The union of intervals in the order of their starts, without its pieces."""

    def __init__(self) -> None:
        self._total = 0
        self._reach: int | None = None

    def add(self, start: IntArray, end: IntArray, time: IntArray) -> IntArray:
        """Add a part; return how much of the union (ns) lies before each of these rising times.

        They are after all starts of earlier parts, and not after any start of a later one.
        """
        if not len(start) and not len(time):
            return time
        if self._reach is None:
            self._reach = int(np.r_[start[:1], time[:1]].min())
        reach = np.maximum.accumulate(np.r_[self._reach, np.maximum(start, end)])
        more = np.maximum(reach[1:] - np.maximum(start, reach[:-1]), 0)
        sums = np.r_[0, np.cumsum(more)] + self._total
        self._reach, self._total = int(reach[-1]), int(sums[-1])
        begun = np.searchsorted(start, time)
        return np.asarray(sums[begun] - np.maximum(reach[begun] - time, 0), np.int64)
