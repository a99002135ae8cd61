"""Which API call launched an operation: by correlation id, which is unique in a process only."""

import numpy as np

from gpu_profile.analysis.arrays.columns import Index, list_distinct
from gpu_profile.analysis.arrays.types import IntArray, Places
from gpu_profile.analysis.store.schema import pid_of


class CallIndex:
    """Finds calls by correlation id and process."""

    def __init__(self, thread: IntArray, correlation: IntArray) -> None:
        self._owners = _find_ends(thread)
        several = len(self._owners) > 1
        pids = (
            list_distinct(pid_of(thread)) if several else [pid & 0xFFFFFF for pid in self._owners]
        )
        self._pids = np.array(pids, np.int64)
        self._highest = int(correlation.max(initial=0)) + 1
        self._index = Index(self._keys(thread, correlation) if several else correlation)

    def places(self, correlation: IntArray, process: IntArray) -> Places:
        """The call of each operation, or -1."""
        if len(self._owners) == 1 and _find_ends(process) <= self._owners:
            return self._index.places(correlation)
        return self._index.places(self._keys(process, correlation))

    def _keys(self, owner: IntArray, correlation: IntArray) -> IntArray:
        """One number a (process, correlation), and -1 for what no call can have."""
        if not len(self._pids):
            return np.full(len(owner), -1)
        mine = pid_of(owner)
        place = np.minimum(np.searchsorted(self._pids, mine), len(self._pids) - 1)
        is_known_call = (
            (self._pids[place] == mine) & (correlation >= 0) & (correlation < self._highest)
        )
        # Of one process, whose calls are found by the correlation alone, the place is 0.
        return np.where(is_known_call, place * self._highest + correlation, -1)


def _find_ends(owner: IntArray) -> set[int]:
    """The first and the last of the processes: one where there is only one."""
    return {int(owner.min()) >> 24, int(owner.max()) >> 24} if len(owner) else set()
