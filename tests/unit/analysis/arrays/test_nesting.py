"""Nesting and lookup told at once, against the same told one by one."""

import numpy as np
import pytest

from gpu_profile.analysis.arrays import nesting as stacks
from gpu_profile.analysis.arrays.columns import (
    Index,
    encode_column,
    is_among,
    list_distinct,
    time_order,
)
from gpu_profile.analysis.arrays.types import IntArray


def nesting(seed: int, depth: int = 4) -> tuple[IntArray, IntArray]:
    """Random intervals that nest, some of them equal, sorted by start, the longer first."""
    random = np.random.default_rng(seed)
    ranges: list[tuple[int, int]] = []

    def fill(low: int, high: int, level: int) -> None:
        at = low
        while at < high - 3 and level < depth:
            end = min(high, at + int(random.integers(2, max(3, (high - low) // 2))))
            ranges.append((at, end))
            fill(at, end, level + 1)
            at = end + int(random.integers(0, 3))

    fill(0, 400, 0)
    ranges.sort(key=lambda pair: (pair[0], -pair[1]))
    start, end = np.array(ranges, np.int64).T
    return start, end


@pytest.mark.parametrize("seed", range(6))
def test_nested_intervals(seed: int) -> None:
    start, end = nesting(seed)
    at_once, one_by_one = stacks.nest_regular(start, end), stacks._one_by_one(start, end)
    assert at_once is not None
    assert [part.tolist() for part in at_once] == [part.tolist() for part in one_by_one]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_open_at_any_time(seed: int) -> None:
    start, end = nesting(seed)
    times = np.arange(-1, 405)

    def open_at(change: tuple[IntArray, IntArray]) -> list[int]:
        place = np.searchsorted(change[0], times, side="right") - 1
        inner: list[int] = np.where(place >= 0, change[1][place], stacks.NONE).tolist()
        return inner

    one_by_one = open_at(stacks._changes_one_by_one(start, end))
    assert open_at(stacks.list_changes(start, end)) == one_by_one


def test_intervals_that_cross_or_are_empty_are_told_one_by_one() -> None:
    crossing = np.array([0, 5, 12]), np.array([10, 15, 20])
    assert stacks.nest_regular(*crossing) is None
    assert stacks.nest_intervals(*crossing)[1].tolist() == [-1, 0, 1]
    assert stacks.nest_regular(np.array([0, 3]), np.array([9, 3])) is None


@pytest.mark.parametrize("wide", [1, 10**9])
def test_columns_are_told_as_numpy_tells_them(wide: int) -> None:
    random = np.random.default_rng(3)
    column = random.integers(-5, 30, 500) * wide
    codes, values = encode_column(column)
    assert list_distinct(column) == np.unique(column).tolist() == values.tolist()
    assert np.array_equal(values[codes], column)
    wanted = [-4 * wide, 0, 7 * wide, 11 * wide, 900 * wide]
    assert np.array_equal(is_among(column, wanted), np.isin(column, wanted))
    keys = np.unique(column)[::-1]
    places = Index(keys).places(np.append(column, 900 * wide))
    assert np.array_equal(keys[places[:-1]], column)
    assert places[-1] == -1


def test_order_by_start_then_end() -> None:
    random = np.random.default_rng(4)
    start = np.sort(random.integers(0, 40, 200)) + random.integers(0, 3, 200)
    end = start + random.integers(0, 5, 200)
    order = time_order(start, end)
    assert order is not None
    assert order.tolist() == np.lexsort((end, start)).tolist()
    assert time_order(start[order], end[order]) is None
