"""Sequences of communication kernels that two ranks recorded in part."""

import pytest

from gpu_profile.analysis.activity.comm.lanes import shifts


@pytest.mark.parametrize(("first", "other", "shift"), [(4, 2, -2), (2, 4, 2), (9, 1, -8)])
def test_few_kernels_can_be_the_last_of_many(first: int, other: int, shift: int) -> None:
    """A window holds two receives of one rank, and on the other rank four sends."""
    slices = {number: (one, theirs) for number, one, theirs in shifts(first, other)}
    size = min(first, other)
    ends = [slice(count - size, count) for count in (first, other)]
    assert slices[shift] == tuple(ends)


def test_every_shift_pairs_half_of_the_shorter_sequence() -> None:
    for _, one, other in shifts(7, 4):
        assert one.stop - one.start == other.stop - other.start >= 2
