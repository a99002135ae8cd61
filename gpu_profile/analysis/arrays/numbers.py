"""Numbers in place of few distinct values of 8 bytes, such as the ids of threads."""

from threading import Lock

import numpy as np

from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.types import IntArray, Threads

_SHORT = 100  # numbers up to it, and one more, fit into 1 byte


class Numbers:
    """Numbers values in the order of their first use, in several threads."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._lock = Lock()

    def encode(self, column: IntArray) -> Threads:
        """The number of each value, in 1 byte each as long as there are few."""
        distinct = list_distinct(column)
        with self._lock:
            numbers = [self._numbers.setdefault(value, len(self._numbers)) for value in distinct]
        codes = np.full(len(column), numbers[0] if numbers else 0)
        for value, number in zip(distinct[1:], numbers[1:], strict=True):
            codes[column == value] = number
        return narrow_numbers(codes)

    @property
    def values(self) -> IntArray:
        """The values by their numbers."""
        return np.array([*self._numbers], np.int64)


def narrow_numbers(numbers: IntArray) -> Threads:
    """The numbers of few values in 1 byte each, else in 4."""
    return numbers.astype(np.int8 if numbers.max(initial=0) <= _SHORT else np.int32)
