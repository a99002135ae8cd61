"""Sets of time against a count of every nanosecond."""

import numpy as np
import pytest

from gpu_profile.analysis.arrays.intervals import NOTHING, Intervals
from gpu_profile.analysis.arrays.packed import pack_intervals
from gpu_profile.analysis.arrays.types import IntArray

SIZE = 400


def random_set(seed: int) -> tuple[Intervals, np.ndarray]:
    """A set, and whether each of SIZE nanoseconds is in it."""
    random = np.random.default_rng(seed)
    start = random.integers(0, SIZE - 20, 25)
    end = start + random.integers(0, 20, 25)
    inside = np.zeros(SIZE, bool)
    for one, other in zip(start, end, strict=True):
        inside[one:other] = True
    return Intervals.union(start, end), inside


def mask(pieces: Intervals) -> np.ndarray:
    inside = np.zeros(SIZE, bool)
    for start, end in zip(pieces.start, pieces.end, strict=True):
        assert end > start
        assert not inside[max(start - 1, 0) : end + 1].any()  # neither touching nor overlapping
        inside[start:end] = True
    return inside


def times(*values: int) -> IntArray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("seed", range(8))
def test_sets_are_what_counting_says(seed: int) -> None:
    (one, in_one), (other, in_other) = random_set(seed), random_set(seed + 100)
    assert np.array_equal(mask(one), in_one)
    assert np.array_equal(mask(one.minus(other)), in_one & ~in_other)
    assert np.array_equal(mask(one.meet(other)), in_one & in_other)
    assert one.total == in_one.sum()
    start = np.arange(0, SIZE - 50, 7)
    counted = [in_one[at : at + 50].sum() for at in start]
    assert one.within(start, start + 50).tolist() == counted
    both = [(in_one & in_other)[at : at + 50].sum() for at in start]
    assert one.overlap_within(other, start, start + 50).tolist() == both
    assert one.overlap(other) == other.overlap(one) == (in_one & in_other).sum()


@pytest.mark.parametrize("seed", range(8))
def test_parts_in_the_order_of_their_starts_join_to_their_union(seed: int) -> None:
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, SIZE - 40, 30))
    end = start + random.choice([0, 3, 40], 30)
    cuts = np.sort(random.integers(0, 31, 6))
    parts = zip(np.split(start, cuts), np.split(end, cuts), strict=True)
    joined = Intervals.join(Intervals.union(*part) for part in parts)
    assert mask(joined).tolist() == mask(Intervals.union(start, end)).tolist()
    packed = pack_intervals((joined.pick(slice(3)), joined.pick(slice(3, None)))).moved(7)
    assert packed.open().start.tolist() == (joined.start + 7).tolist()
    assert packed.open().end.tolist() == (joined.end + 7).tolist()


def test_packed_intervals_hold_long_pauses_and_nothing() -> None:
    far = Intervals(times(-5, 10**15), times(3, 2 * 10**15))
    assert pack_intervals((NOTHING, far)).open().end.tolist() == far.end.tolist()
    assert not len(pack_intervals(()).moved(3).open().start)


def test_touching_pieces_are_one() -> None:
    pieces = Intervals.union(times(5, 0, 10), times(10, 5, 12))
    assert (pieces.start.tolist(), pieces.end.tolist()) == ([0], [12])
    assert len(pieces.gaps().start) == 0


@pytest.mark.parametrize("seed", range(8))
def test_covered_time_is_the_total_of_the_union(seed: int) -> None:
    random = np.random.default_rng(seed)
    start = random.integers(0, SIZE, 30)
    end = start + random.integers(0, 20, 30)
    order = np.argsort(start)
    total = Intervals.union(start, end).total
    assert Intervals.covered(start[order], end[order]) == total
    assert Intervals.covered(start, end) == total
    assert Intervals.covered(times(), times()) == 0


def test_nothing() -> None:
    some = Intervals.union(times(1), times(4))
    assert NOTHING.total == NOTHING.minus(some).total == NOTHING.meet(some).total == 0
    assert some.minus(NOTHING).total == 3
    assert some.overlap(NOTHING) == NOTHING.overlap(some) == 0
    assert some.overlap_within(NOTHING, times(0), times(9)).tolist() == [0]
    assert NOTHING.overlap_within(some, times(0), times(9)).tolist() == [0]
    assert Intervals.union(times(3), times(3)).total == 0
    assert NOTHING.within(times(0), times(9)).tolist() == [0]


@pytest.mark.parametrize("rises", [True, False])
def test_split_is_the_union_within_neighbouring_edges(rises: bool) -> None:
    random = np.random.default_rng(7)
    start = random.integers(0, SIZE, 60)
    start = np.sort(start) if rises else start
    end, edges = start + random.integers(-2, 20, 60), np.arange(-10, SIZE, 7)
    expected = Intervals.union(start, end).within(edges[:-1], edges[1:])
    assert np.array_equal(Intervals.split(start, end, edges), expected)
    assert not Intervals.split(times(), times(), edges).any()
