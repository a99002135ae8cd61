"""Statistics: exact, and the same however the values are cut into reports."""

import pickle
import random
import statistics

import numpy as np
import pytest

from gpu_profile.analysis.tables.statistics import (
    Samples,
    compute_quantiles,
    count_values,
    encode_rows,
    pool_samples,
    summarise_samples,
)

NUMBERS = random.Random(7)
VALUES = [NUMBERS.choice([5, 100, 32 * NUMBERS.randrange(999), 10**15]) for _ in range(999)]
NAMES = [NUMBERS.choice("abc") for _ in VALUES]


def samples(values: list[int], names: list[str]) -> Samples:
    keys = sorted(set(names), reverse=True)
    codes = np.array([keys.index(name) for name in names], np.int64)
    return count_values([(key,) for key in keys], codes, np.array(values, np.int64))


@pytest.mark.parametrize("parts", [1, 2, 7, 333])
def test_statistics_are_those_of_all_values(parts: int) -> None:
    cut = [samples(VALUES[i::parts], NAMES[i::parts]) for i in range(parts)]
    rows = summarise_samples(pool_samples(pickle.loads(pickle.dumps(part)) for part in cut))
    for row, name in zip(rows, "abc", strict=True):
        mine = [value for value, own in zip(VALUES, NAMES, strict=True) if own == name]
        assert (row.key, row.count, row.total) == ((name,), len(mine), sum(mine))
        assert (row.minimum, row.maximum) == (min(mine), max(mine))
        assert row.median == statistics.median(mine)
        assert row.mean == pytest.approx(statistics.mean(mine), rel=1e-12)
        assert row.stdev == pytest.approx(statistics.stdev(mine), rel=1e-9)


def test_pooling_in_any_order_gives_the_same_bits() -> None:
    parts = [samples(VALUES[i::5], NAMES[i::5]) for i in range(5)]
    assert summarise_samples(pool_samples(parts)) == summarise_samples(pool_samples(parts[::-1]))
    nested = pool_samples([pool_samples(parts[:2]), pool_samples(parts[2:])])
    assert summarise_samples(nested) == summarise_samples(pool_samples(parts))


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.95, 1.0])
def test_quantiles_are_numpys(share: float) -> None:
    values = [value % 10**6 for value in VALUES]
    quantiles = compute_quantiles(samples(values, ["a"] * len(values)), share)
    assert quantiles.tolist() == pytest.approx([np.quantile(values, share)])


def test_a_single_value_has_no_deviation() -> None:
    (row,) = summarise_samples(samples([7], ["a"]))
    assert (row.median, row.stdev) == (7.0, 0.0)


def test_negative_values_and_no_values() -> None:
    (row,) = summarise_samples(samples([-5, 5, -7], ["a", "a", "a"]))
    assert (row.minimum, row.median, row.maximum) == (-7, -5.0, 5)
    assert summarise_samples(pool_samples([])) == []


@pytest.mark.parametrize("scale", [1, 10**12])
def test_distinct_counts_combinations(scale: int) -> None:
    first = np.array([3, 1, 3, 1, 2]) * scale
    second = np.array([0, 0, 0, 9, 0])
    codes, rows = encode_rows(first, second)
    assert rows == [(scale, 0), (scale, 9), (2 * scale, 0), (3 * scale, 0)]
    assert codes.tolist() == [3, 0, 3, 1, 2]
