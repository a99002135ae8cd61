"""Shapes of kernels by numbers: each row's own come back, of several parts, in any order."""

import numpy as np
import pytest

from gpu_profile.analysis.arrays.shapes import NO_SHAPE, Coded, ShapeNumbers


@pytest.mark.parametrize("seed", range(3))
def test_each_row_has_its_shape(seed: int) -> None:
    random, numbers = np.random.default_rng(seed), ShapeNumbers()
    # A block more for 2^20 threads less is another shape, and so is a negative number.
    columns = random.choice([0, 1, 2, 1 << 20, -(1 << 40)], (3, 50)).astype(np.int64)
    codes = np.concatenate([numbers.encode(*part) for part in np.split(columns, [20], axis=1)])
    shapes = numbers.values
    assert tuple(shapes[0]) == NO_SHAPE
    for values, column in zip(shapes.T, columns, strict=True):
        coded = Coded(values, codes)
        assert coded[:].tolist() == column.tolist()
        assert coded[np.array([49, 3])].tolist() == column[[49, 3]].tolist()
    assert codes.dtype == np.int16


def test_no_rows_have_no_shapes() -> None:
    numbers, none = ShapeNumbers(), np.empty(0, np.int64)
    assert not len(numbers.encode(none, none, none))
    assert numbers.values.tolist() == [list(NO_SHAPE)]
