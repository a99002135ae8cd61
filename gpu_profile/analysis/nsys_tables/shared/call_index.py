"""Find the API call that launched an operation, by process and correlation id.

nsys' correlation ids are unique only within a process.
"""

import numpy as np

from gpu_profile.analysis.arrays.columns import Index, list_distinct
from gpu_profile.analysis.arrays.types import IntArray, Places
from gpu_profile.analysis.store.schema import pid_of


class CallIndex:
    """Finds calls by correlation id and process; without keys for the process if there is only
    one.
    """

    def __init__(self, thread: IntArray, correlation: IntArray) -> None:
        self._owners = _find_ends(thread)
        is_several = len(self._owners) > 1
        pids = (
            list_distinct(pid_of(thread))
            if is_several
            else [pid & 0xFFFFFF for pid in self._owners]
        )
        self._pids = np.array(pids, np.int64)
        self._highest = int(correlation.max(initial=0)) + 1
        self._index = Index(self._keys(thread, correlation) if is_several else correlation)

    def places(self, correlation: IntArray, process: IntArray) -> Places:
        """The row of the call of each operation, or -1."""
        if len(self._owners) == 1 and _find_ends(process) <= self._owners:
            return self._index.places(correlation)
        return self._index.places(self._keys(process, correlation))

    def _keys(self, owner: IntArray, correlation: IntArray) -> IntArray:
        """One integer for each (process, correlation id); -1 if no call can have it."""
        if not len(self._pids):
            return np.full(len(owner), -1)
        pids = pid_of(owner)
        place = np.minimum(np.searchsorted(self._pids, pids), len(self._pids) - 1)
        is_known_call = (
            (self._pids[place] == pids) & (correlation >= 0) & (correlation < self._highest)
        )
        # With one process `place` is 0, so the key equals the correlation id, by which the index
        # is made.
        return np.where(is_known_call, place * self._highest + correlation, -1)


def _find_ends(owner: IntArray) -> set[int]:
    """The smallest and the largest pid: a set of one element if there is only one process."""
    return {int(owner.min()) >> 24, int(owner.max()) >> 24} if len(owner) else set()
