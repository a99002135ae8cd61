"""Distinct values, membership and positions for large integer columns.

A table indexed by value takes O(n) where the range of values is small; a sort takes O(n log n).
"""

from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray, Places

Integers = NDArray[np.integer[Any]]

# values in a range this small use a table: 1 to 8 MB, less than a column of 10 million cells
TABLE = 1_000_000
FEW = 8
SOUGHT = 1 << 15  # keys that are sought together: calls of so many launches fit into a table
NARROW, SHORT = 1 << 29, 1 << 13
# 65,536 slots of 8 bytes: 0.5 MB stay in a processor's cache.
SLOT_BITS = 16
# 2^64 over the golden ratio: Knuth, The Art of Computer Programming, volume 3, section 6.4
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def list_distinct(column: Integers) -> list[int]:
    """The distinct values, ascending."""
    if not len(column):
        return []
    low, high = int(column.min()), int(column.max())
    if low == high:
        return [low]
    if high - low <= TABLE:
        seen = np.zeros(high - low + 1, bool)
        # As int64: 100 - -100 is no number of 1 byte.
        seen[np.subtract(column, low, dtype=np.int64) if low else column] = True
        values: list[int] = (np.flatnonzero(seen) + low).tolist()
        return values
    return _list_scattered(column)


def _list_scattered(column: Integers) -> list[int]:
    """Distinct values in a large range, such as thread ids.

    Mostly there are few: up to 8 are removed from the column one by one, before a sort of the
    rest.
    """
    values, left = list[int](), column
    while len(left) and len(values) < FEW:
        values.append(int(left[0]))
        left = left[left != left[0]]
    return sorted([*values, *np.unique(left).tolist()])


def encode_column(column: IntArray) -> tuple[IntArray, IntArray]:
    """(codes, values) with column == values[codes], as np.unique(column, return_inverse=True)."""
    if not len(column):
        return column, column
    low, high = int(column.min()), int(column.max())
    if high - low > len(column) + TABLE:
        return _encode_scattered(column)
    seen = np.zeros(high - low + 1, np.int64)
    shifted = column - low if low else column
    seen[shifted] = 1
    return (np.cumsum(seen) - 1)[shifted], np.flatnonzero(seen) + low


def _encode_scattered(column: IntArray) -> tuple[IntArray, IntArray]:
    """encode_column() of values in a large range, by a hash: a sort of a million takes 0.1 s.

    Two values can have one slot, where the one that is written last stays: the other is sorted.
    """
    bits = column.astype(np.int64, copy=False).view(np.uint64)
    # The highest bits of the product depend on all bits of the value, the lowest on few.
    slot = ((bits * _MULTIPLIER) >> np.uint64(64 - SLOT_BITS)).view(np.int64)
    table, is_used = np.zeros(1 << SLOT_BITS, np.int64), np.zeros(1 << SLOT_BITS, bool)
    table[slot], is_used[slot] = column, True
    others = np.flatnonzero(table[slot] != column)
    slots = np.flatnonzero(is_used)
    values = np.sort(np.concatenate([table[slots], np.unique(column[others])]))
    table[slots] = np.searchsorted(values, table[slots])
    codes = table[slot]
    codes[others] = np.searchsorted(values, column[others])
    return codes, values


def narrow_column(column: IntArray) -> IntArray:
    """The same ids in 4 bytes each, if sums and differences of two fit; halves a comparison's time.

    The type stays that of all columns, which numpy widens where it meets another.
    """
    is_narrow = column.min(initial=0) >= -NARROW and column.max(initial=0) <= NARROW
    return column.astype(np.int32, copy=False) if is_narrow else column


def shrink_column(column: IntArray) -> IntArray:
    """As narrow_column(), in 2 bytes each where sums and differences of two fit."""
    is_short = column.min(initial=0) >= -SHORT and column.max(initial=0) <= SHORT
    return column.astype(np.int16, copy=False) if is_short else narrow_column(column)


def find_first_rows(column: IntArray) -> IntArray:
    """The first row of each of few distinct values, as np.unique(column, return_index=True)[1]."""
    rows_by_value: dict[int, int] = {}
    for begin in range(0, len(column), SOUGHT):
        codes, values = encode_column(column[begin : begin + SOUGHT])
        first = np.zeros(len(values), np.int64)
        # Of several writes to a cell the last stays.
        first[codes[::-1]] = np.arange(begin, begin + len(codes))[::-1]
        for value, row in zip(values.tolist(), first.tolist(), strict=True):
            rows_by_value.setdefault(value, row)
    return np.array([rows_by_value[value] for value in sorted(rows_by_value)], np.int64)


def order_codes(codes: Integers, count: int) -> IntArray:
    """The stable order of codes below `count`; of 16 bits numpy sorts in linear time."""
    return np.argsort(codes.astype(np.uint16) if count <= 1 << 16 else codes, kind="stable")


def is_among(column: Integers, values: Iterable[int]) -> NDArray[np.bool_]:
    """A mask of the cells that hold one of the values, as np.isin."""
    sought = np.fromiter(values, np.int64)
    if not len(sought) or not len(column):
        return np.zeros(len(column), bool)
    if len(sought) <= 3:  # Python's integers do not widen a column of int8
        return reduce(np.logical_or, [column == value for value in sought.tolist()])
    low, high = int(sought.min()), int(sought.max())
    if high - low > TABLE or low < -TABLE:
        return np.isin(column, sought)
    table = np.zeros(high - low + 3, bool)  # the first and last cells are for values outside
    table[sought - low + 1] = True
    return table[np.clip(column, low - 1, high + 1) - (low - 1)]


class Index:
    """The positions of keys in a column; of equal cells that of the last one."""

    def __init__(self, among: IntArray) -> None:
        order = None if is_rising(among) else np.argsort(among, kind="stable")
        self._sorted = among if order is None else among[order]
        self._order = None if order is None else np.append(order, -1)

    def places(self, keys: IntArray) -> Places:
        """The position of each key in the column, or -1."""
        places = np.full(len(keys), -1, np.int32)
        for first in range(0, len(keys) if len(self._sorted) else 0, SOUGHT):
            places[first : first + SOUGHT] = self._find(keys[first : first + SOUGHT])
        return places

    def _find(self, keys: IntArray) -> Integers:
        """The positions of some keys: by a table of the cells in their range, where that is small,
        else by a binary search, which takes thrice as long.
        """
        low = max(int(keys.min()), int(self._sorted[0]))
        high = min(int(keys.max()), int(self._sorted[-1]))
        # Of the column's type: numpy would copy the column to compare it with a wider one.
        kind = self._sorted.dtype.type
        first = int(np.searchsorted(self._sorted, kind(low))) if low <= high else 0
        stop = int(np.searchsorted(self._sorted, kind(high), "right")) if low <= high else 0
        cells = self._sorted[first:stop]
        if not len(cells):
            return np.full(len(keys), -1)
        if high - low <= TABLE:
            place = _find_by_table(keys, cells, low, high)
        else:
            nearest = np.maximum(np.searchsorted(cells, keys, "right") - 1, 0)
            place = np.where(cells[nearest] == keys, nearest, -1)
        place[place >= 0] += first
        return place if self._order is None else self._order[place]


def _find_by_table(keys: IntArray, cells: IntArray, low: int, high: int) -> Places:
    """The positions of keys in cells that are from `low` to `high`, or -1."""
    table = np.full(high - low + 2, -1, np.int32)
    # Not Python's integer, which may not fit into the 4 bytes of narrow keys.
    table[cells - np.int64(low)] = np.arange(len(cells), dtype=np.int32)
    # The table's last cell holds -1: not there.
    return table[np.where((keys < low) | (keys > high), np.int64(-1), keys - np.int64(low))]


def is_rising(column: IntArray) -> bool:
    """Whether each cell is at least as large as the one before it."""
    return bool(np.all(column[:-1] <= column[1:]))


def time_order(start: IntArray, end: IntArray) -> IntArray | None:
    """The order of the rows by start, then end, then row; None if the rows are in that order
    already.

    nsys writes nearly sorted rows, which a stable sort by start takes in nearly linear time. Only
    rows with equal starts are sorted by end.
    """
    order = None if is_rising(start) else np.argsort(start, kind="stable")
    first, last = (start, end) if order is None else (start[order], end[order])
    same = first[:-1] == first[1:]
    if not np.any(same & (last[:-1] > last[1:])):
        return order
    order = np.arange(len(start)) if order is None else order
    ties = np.flatnonzero(np.append(same, False) | np.append(False, same))
    order[ties] = order[ties[np.lexsort((last[ties], first[ties]))]]
    return order
