"""What one rank did: its GPU operations, the host calls that asked for them, its NVTX ranges.

Our own analyses read a report through this one view; the tables that equal nsys' read it directly.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.host_ranges import Ranges, innermost
from gpu_profile.analysis.intervals import Intervals
from gpu_profile.analysis.schema import IntArray

COMPUTE, COMMUNICATION, COPY, SET = range(4)
COPY_TO_DEVICE, COPY_TO_HOST, COPY_ON_DEVICE = 1, 2, 8
PAGEABLE, PINNED = 0, 1
NO_CALL = -1
# Kernels that move data between GPUs and wait for their peers: NCCL's (ncclKernel_ before 2.19,
# ncclDevKernel_ since), NVSHMEM's, and the one- and two-shot all-reduces of inference engines.
COMMUNICATION_NAME = re.compile(
    r"^(void )?(nccl(Dev)?Kernel|nvshmem|(\w+::)*(cross_device_reduce|(one|two)_shot_all_reduce))"
)


@dataclass(frozen=True, eq=False)
class Ops:
    """GPU operations sorted by start; arrays of one length. `call` indexes Calls, or NO_CALL.

    `bytes` of a collective is its message's size where the report tells it, else 0.
    """

    start: IntArray
    end: IntArray
    kind: IntArray
    stream: IntArray
    name: IntArray
    bytes: IntArray
    copy_kind: IntArray
    pageable: NDArray[np.bool_]
    call: IntArray

    @property
    def duration(self) -> IntArray:
        return self.end - self.start

    def union(self, *kinds: int) -> Intervals:
        """The time in which an operation of one of these kinds ran (of any kind: none given)."""
        chosen = np.isin(self.kind, kinds) if kinds else np.ones(len(self.kind), bool)
        return Intervals.union(self.start[chosen], self.end[chosen])


@dataclass(frozen=True, eq=False)
class Calls:
    """CUDA API calls of one process, sorted by start. `thread` is nsys' globalTid."""

    start: IntArray
    end: IntArray
    thread: IntArray
    correlation: IntArray
    name: IntArray

    def named(self, names: Mapping[int, str], pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        """Which calls' names match."""
        wanted = [key for key in np.unique(self.name) if pattern.match(names[int(key)])]
        return np.isin(self.name, wanted)


@dataclass(frozen=True, eq=False)
class Activity:
    """One rank on one device of a `host`; `gpu` is its model. Times are the report's own.

    `names` resolves Ops.name and Calls.name.
    """

    rank: int
    process: int
    device: int
    ops: Ops
    calls: Calls
    ranges: Ranges
    overhead: Intervals
    names: Mapping[int, str]
    gpu: str = ""
    host: str = ""

    @cached_property
    def launched(self) -> IntArray:
        """When the host asked for each operation; the operation's own start where unknown."""
        known = self.ops.call != NO_CALL
        starts = self.calls.start[self.ops.call[known]]
        result = self.ops.start.copy()
        result[known] = starts
        return result


def owners(activity: Activity, ranges: Ranges) -> IntArray:
    """Index (in `ranges`) of the innermost one open at each operation's launch, or NO_RANGE."""
    call = activity.ops.call
    thread = np.full(len(call), NO_CALL)
    thread[call != NO_CALL] = activity.calls.thread[call[call != NO_CALL]]
    return innermost(ranges, thread, activity.launched)
