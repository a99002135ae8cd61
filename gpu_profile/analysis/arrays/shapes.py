"""The grids and blocks of kernels: of a million kernels some hundred are distinct."""

from threading import Lock

import numpy as np

from gpu_profile.analysis.arrays.columns import (
    Integers,
    encode_column,
    narrow_column,
    shrink_column,
)
from gpu_profile.analysis.arrays.types import Flags, IntArray

Shape = tuple[int, int, int]
"""A number that tells equal grids, how many blocks a grid has, and how many threads a block."""
NO_SHAPE: Shape = (0, 0, 0)
_FACTORS = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
"""Odd numbers of 64 bits, by which three numbers become one: equal sums of others are one in 2^64.
"""


class Coded:
    """A column of few distinct values; an index takes those of some rows, [:] all."""

    def __init__(self, values: IntArray, codes: Integers) -> None:
        self._values, self._codes = narrow_column(values), codes

    def __getitem__(self, rows: Integers | Flags | slice) -> IntArray:
        return self._values[self._codes[rows]]


class ShapeNumbers:
    """Numbers shapes in the order of their first use, in several threads; 0 is NO_SHAPE."""

    def __init__(self) -> None:
        self._numbers: dict[Shape, int] = {NO_SHAPE: 0}
        self._lock = Lock()

    def encode(self, grid: IntArray, blocks: IntArray, threads: IntArray) -> IntArray:
        """The number of each row's shape, in 2 bytes each as long as there are few."""
        columns = grid, blocks, threads
        parts = (
            column.astype(np.uint64) * np.uint64(factor)
            for column, factor in zip(columns, _FACTORS, strict=True)
        )
        place, keys = encode_column(sum(parts, np.zeros(len(grid), np.uint64)).view(np.int64))
        row = np.zeros(len(keys), np.int64)
        row[place] = np.arange(len(place))
        shapes = zip(*(column[row].tolist() for column in columns), strict=True)
        with self._lock:
            numbers = [self._numbers.setdefault(shape, len(self._numbers)) for shape in shapes]
        return shrink_column(np.array(numbers, np.int64))[place]

    @property
    def values(self) -> IntArray:
        """The shapes by their numbers, a row each."""
        return np.array([*self._numbers], np.int64)
