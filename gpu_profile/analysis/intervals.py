"""Sets of time as sorted, disjoint [start, end) pieces, measured exactly in integer ns."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.schema import IntArray


@dataclass(frozen=True, eq=False)
class Intervals:
    """`start` and `end` are int64 arrays of one length; pieces neither touch nor overlap."""

    start: IntArray
    end: IntArray

    @classmethod
    def union(cls, start: IntArray, end: IntArray) -> "Intervals":
        """The time covered by any of the given intervals, in any order."""
        keep = end > start
        order = np.argsort(start[keep], kind="stable")
        start, reach = start[keep][order], np.maximum.accumulate(end[keep][order])
        if not len(start):
            return NOTHING
        opens = np.r_[True, start[1:] > reach[:-1]]
        closes = np.r_[opens[1:], True]
        return cls(start[opens], reach[closes])

    @property
    def total(self) -> int:
        return int((self.end - self.start).sum())

    def before(self, time: IntArray) -> IntArray:
        """How much of the set lies before each time: the one primitive of the measures below."""
        if not len(self.start):
            return np.zeros(np.shape(time), np.int64)
        sums = np.r_[0, np.cumsum(self.end - self.start)]
        piece = np.searchsorted(self.start, time, side="right")
        last = np.maximum(piece - 1, 0)
        beyond = np.where(piece > 0, np.maximum(self.end[last] - time, 0), 0)
        return np.asarray(sums[piece] - beyond, np.int64)

    def within(self, start: IntArray, end: IntArray) -> IntArray:
        """How much of the set lies in each window [start, end)."""
        return self.before(np.maximum(start, end)) - self.before(start)

    def minus(self, other: "Intervals") -> "Intervals":
        """The part of this set that is not in the other."""
        return self._sweep(other, wanted=1)

    def meet(self, other: "Intervals") -> "Intervals":
        """The part of this set that is in the other too."""
        return self._sweep(other, wanted=3)

    def gaps(self) -> "Intervals":
        """The time between the pieces."""
        return Intervals(self.end[:-1], self.start[1:])

    def _sweep(self, other: "Intervals", wanted: int) -> "Intervals":
        """Pieces where the state (1: in this set, 2: in the other, 3: in both) is `wanted`."""
        times = np.concatenate((self.start, self.end, other.start, other.end))
        sizes = (len(self.start), len(self.end), len(other.start), len(other.end))
        changes = np.repeat(np.array([1, -1, 2, -2]), sizes)
        order = np.argsort(times, kind="stable")
        times, state = times[order], np.cumsum(changes[order])
        hit = np.flatnonzero((state[:-1] == wanted) & (times[1:] > times[:-1]))
        return Intervals.union(times[hit], times[hit + 1]) if len(times) else NOTHING


NOTHING = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))
