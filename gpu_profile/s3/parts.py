"""The parts of an upload to S3."""

from dataclasses import dataclass

PART_BYTES = 64 << 20  # _MOST_PARTS of these are 625 GiB; S3 takes 5 MiB and more
_MOST_PARTS = 10_000  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
_MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a file: number 1 is its first 64 MiB."""

    number: int
    offset: int
    size: int


def split_parts(size: int, least: int = PART_BYTES) -> tuple[Part, ...]:
    """Return the parts of a file of `size` bytes: of `least` each, or as large as 10,000 must be.

    A small or an empty file is one part, which takes no multipart upload.
    """
    needed = -(-size // _MOST_PARTS)
    step = max(least, -(-needed // _MIB) * _MIB)
    offsets = range(0, size, step) or (0,)
    return tuple(
        Part(number=number, offset=offset, size=min(step, size - offset))
        for number, offset in enumerate(offsets, 1)
    )
