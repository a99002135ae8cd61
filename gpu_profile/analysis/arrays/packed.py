"""Sets of many intervals in 8 bytes each, for what is kept and sent to another process."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.arrays.ends import Lengths, narrow_differences
from gpu_profile.analysis.arrays.intervals import Intervals


@dataclass(frozen=True, eq=False)
class PackedIntervals:
    """`origin` is the first start, `rise` how much later than the one before each starts."""

    origin: int
    rise: Lengths
    length: Lengths

    def open(self) -> Intervals:
        start = np.cumsum(self.rise, dtype=np.int64)
        start += self.origin
        return Intervals(start, start + self.length)

    def moved(self, by: int) -> "PackedIntervals":
        """The same set, `by` ns later."""
        return replace(self, origin=self.origin + by)


def pack_intervals(parts: Iterable[Intervals]) -> PackedIntervals:
    """The parts of a set, in the order of time, as one."""
    origin, last = None, 0
    rises: list[Lengths] = [np.empty(0, np.int32)]
    lengths: list[Lengths] = [np.empty(0, np.int32)]
    for part in parts:
        if not len(part.start):
            continue
        first = int(part.start[0])
        origin, last = (first, first) if origin is None else (origin, last)
        rises.append(narrow_differences(np.diff(part.start, prepend=last)))
        lengths.append(narrow_differences(part.end - part.start))
        last = int(part.start[-1])
    return PackedIntervals(origin or 0, np.concatenate(rises), np.concatenate(lengths))
