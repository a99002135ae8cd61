"""Cover: what intervals cover that come in parts, as their union tells it; and Ends."""

import numpy as np
import pytest

from gpu_profile.analysis.arrays.cover import Cover
from gpu_profile.analysis.arrays.ends import Ends, measure_lengths, narrow_differences
from gpu_profile.analysis.arrays.intervals import Intervals


@pytest.mark.parametrize("seed", range(30))
def test_parts_cover_what_their_union_covers(seed: int) -> None:
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(-20, 200, seed))
    end = start + random.integers(-1, 25, seed)
    times = np.arange(-30, 240)
    begun = np.searchsorted(start, times)
    cover, lengths = Cover(), [times[begun == 0] * 0]
    for first in range(0, seed, 7):
        part = slice(first, first + 7)
        inside = times[(begun > first) & (begun <= first + 7)]
        lengths.append(cover.add(start[part], end[part], inside))
    assert np.concatenate(lengths).tolist() == Intervals.union(start, end).before(times).tolist()


@pytest.mark.parametrize("missing", [False, True])
def test_ends_are_kept_as_lengths(missing: bool) -> None:
    start, end = np.array([5, 10, 12]), np.array([5, 10 + 2**32 - 1, 20])
    if missing:
        end[1] = np.iinfo(np.int64).min
    length = measure_lengths(start, end)
    ends = Ends(start, length)
    assert length.itemsize == (8 if missing else 4)
    assert ends[:].tolist() == end.tolist()
    assert ends[np.array([2, 0])].tolist() == [20, 5]
    assert ends.max() == int(end.max())
    assert Ends(start[:0], length[:0]).max(initial=7) == 7


def test_differences_have_four_bytes_and_a_sign_where_they_fit() -> None:
    length = measure_lengths(np.array([0, 10]), np.array([5, 2**31 + 10]))
    assert narrow_differences(length[:1]).dtype == np.int32
    wide = narrow_differences(length)
    assert (wide - 2**33).tolist() == [5 - 2**33, -3 * 2**31]
