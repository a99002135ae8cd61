"""Times beside others, such as the ends of intervals, kept as differences of 4 bytes each."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import Flags, IntArray

Lengths = NDArray[np.integer[Any]]
PART = 1 << 16


class Ends:
    """The ends of intervals, of which an index takes those of some rows; [:] takes all.

    Lengths below 0 give times before the starts.
    """

    def __init__(self, start: IntArray, length: Lengths) -> None:
        self._start, self._length = start, length

    def __getitem__(self, rows: Lengths | Flags | slice) -> IntArray:
        return np.asarray(self._start[rows] + self._length[rows], np.int64)

    def __len__(self) -> int:
        return len(self._start)

    def max(self, initial: int | None = None) -> int:
        """The last end; `initial` if there is none, or if that is later."""
        parts = range(0, len(self._start), PART)
        lasts = [int(self[first : first + PART].max()) for first in parts]
        return max(lasts if initial is None else [initial, *lasts])


def measure_lengths(start: IntArray, end: IntArray) -> Lengths:
    """end - start, in 4 bytes each where no end is missing or before its start."""
    length: IntArray = end - start
    fits = length.min(initial=0) >= 0 and length.max(initial=0) < 1 << 32
    return length.astype(np.uint32) if fits else length


def narrow_differences(difference: Lengths) -> Lengths:
    """The same numbers in 4 bytes each, with a sign, if they fit: 2.1 s of ns; else in 8."""
    limits = np.iinfo(np.int32)
    fits = difference.min(initial=0) >= limits.min and difference.max(initial=0) <= limits.max
    return difference.astype(np.int32 if fits else np.int64)
