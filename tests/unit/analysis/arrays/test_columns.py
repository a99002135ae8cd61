"""Positions of keys in a sorted column, as numpy's binary search finds them."""

from typing import Literal

import numpy as np
import pytest

from gpu_profile.analysis.arrays.columns import search_sorted


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("cells", "count"),
    [(0, 0), (5, 0), (0, 5), (90, 5), (40, 60), (4, 400), (90, 500), (90_000, 150_000)],
)
def test_merged_columns_give_what_a_binary_search_gives(
    cells: int, count: int, side: Literal["left", "right"]
) -> None:
    """Keys that rise, that mostly rise, and in any order; many of them are equal."""
    random = np.random.default_rng(cells + count)
    among, keys = (
        np.sort(random.integers(0, 50 + cells, cells)),
        np.sort(random.integers(-5, 55 + cells, count)),
    )
    swapped = np.r_[keys[1:2], keys[:1], keys[2:]]
    for each in (keys, swapped, random.permutation(keys)):
        places = search_sorted(among, each, side)
        assert places.tolist() == np.searchsorted(among, each, side).tolist()
