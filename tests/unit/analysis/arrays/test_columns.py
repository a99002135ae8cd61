"""Codes and first rows of columns against numpy's sorts."""

import numpy as np
import pytest

from gpu_profile.analysis.arrays.columns import (
    encode_column,
    find_first_rows,
    list_distinct,
    order_codes,
)


@pytest.mark.parametrize("distinct", [1, 300, 70_000])  # one slot each, some that share one, most
def test_codes_of_scattered_values_are_what_a_sort_gives(distinct: int) -> None:
    random = np.random.default_rng(distinct)
    values = random.integers(-(2**62), 2**62, distinct)
    column = values[random.integers(0, distinct, 100_000)]
    expected, codes = np.unique(column, return_inverse=True)
    column_codes, values = encode_column(column)
    assert np.array_equal(values, expected)
    assert np.array_equal(column_codes, codes)
    assert np.array_equal(find_first_rows(column), np.unique(column, return_index=True)[1])
    assert np.array_equal(order_codes(column_codes, len(values)), np.argsort(column, kind="stable"))


@pytest.mark.parametrize("values", [(-100, 100, 7), (0, 2, 1), (-(2**62), 2**62)])
def test_distinct_values_of_narrow_and_wide_columns(values: tuple[int, ...]) -> None:
    assert list_distinct(np.array(values * 2)) == sorted(values)
    if max(values) <= 127:
        assert list_distinct(np.array(values * 2, np.int8)) == sorted(values)
