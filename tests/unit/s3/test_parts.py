"""The parts of an upload: whole, in order, and within the limits of S3."""

import itertools

import pytest

from gpu_profile.s3.parts import PART_BYTES, split_parts

MIB, GIB = 1 << 20, 1 << 30
LIMITS = (10_000, 5 * GIB)  # parts of an upload, bytes of a part
SIZES = (
    *(0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES),
    *(10_000 * PART_BYTES, 10_000 * PART_BYTES + 1, 1 << 42, 10_000 * 5 * GIB),
)


@pytest.mark.parametrize("size", SIZES)
def test_the_parts_of_a_file_are_the_whole_file(size: int) -> None:
    parts = split_parts(size)
    assert [part.number for part in parts] == list(range(1, len(parts) + 1))
    ends = [part.offset + part.size for part in parts]
    assert [part.offset for part in parts] == [0, *ends[:-1]]
    assert ends[-1] == size
    assert len(parts) <= LIMITS[0]
    assert max(part.size for part in parts) <= LIMITS[1]
    # S3 refuses a part below 5 MiB that is not the last.
    assert all(part.size >= 5 * MIB for part in parts[:-1])


def test_a_file_of_640_gb_is_10000_parts_and_a_byte_more_makes_larger_ones() -> None:
    most, more = split_parts(10_000 * PART_BYTES), split_parts(10_000 * PART_BYTES + 1)
    assert (len(most), most[0].size) == (10_000, PART_BYTES)
    assert (len(more), more[0].size) == (9_847, PART_BYTES + MIB)
    assert all(a.offset < b.offset for a, b in itertools.pairwise(more))
