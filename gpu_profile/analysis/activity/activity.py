"""The activity of one rank: its GPU operations, CUDA API calls, and NVTX ranges.

Our own tables (our_tables/) read a report through this view. The tables that equal nsys' own
(nsys_tables/) read the database directly.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.comm.calls import CommCalls
from gpu_profile.analysis.activity.graph_captures import GraphCaptures
from gpu_profile.analysis.activity.nvtx_ranges import Ranges, find_innermost
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.cover import Cover
from gpu_profile.analysis.arrays.ends import Ends, Lengths, narrow_differences
from gpu_profile.analysis.arrays.intervals import PART, Intervals
from gpu_profile.analysis.arrays.shapes import Coded
from gpu_profile.analysis.arrays.types import IntArray, Places, Threads

COMPUTE, COMMUNICATION, COPY, SET = range(4)
COPY_TO_DEVICE, COPY_TO_HOST, COPY_ON_DEVICE = 1, 2, 8
PAGEABLE, PINNED = 0, 1
NO_CALL = -1
SYNC_NAME = re.compile(
    r"cuda(Stream|Device|Event)Synchronize|cu(Stream|Ctx|Event)Synchronize|cudaThreadSynchronize"
)
ALLOCATION_NAME = re.compile(
    r"cuda(Malloc|Free|HostAlloc|HostRegister|HostUnregister)"
    r"|cuMem(Alloc|Free|HostAlloc|Create|Map|Unmap|SetAccess|Release)"
)


@dataclass(frozen=True, eq=False)
class Ops:
    """GPU operations sorted by start, in arrays of one length.

    `call` is a row of Calls, or NO_CALL. `bytes` of a collective is the size of its message, 0
    where the report does not hold it. `name` is the id of the short name ("gemm"), `full_name` the
    id of the name with template arguments ("gemm<float, 128>"); both are equal where the report
    has only one. `graph_node` is nsys' graphNodeId, NO_NODE outside of replayed CUDA graphs.
    `shape` is a row of `shapes`, which are those of ShapeNumbers.
    """

    start: IntArray
    length: Lengths
    kind: NDArray[np.int8]
    stream: IntArray
    name: IntArray
    bytes: IntArray
    copy_kind: NDArray[np.int8]
    pageable: NDArray[np.bool_]
    full_name: IntArray
    call: IntArray
    graph_node: IntArray
    shape: IntArray
    shapes: IntArray

    @property
    def end(self) -> Ends:
        return Ends(self.start, self.length)

    @property
    def grid(self) -> Coded:
        """A number that tells equal grids of kernels, and CUDA graphs that take equally long."""
        return Coded(self.shapes[:, 0], self.shape)

    @property
    def blocks(self) -> Coded:
        """How many blocks a grid has; 0 for what is no kernel, and where it is unknown."""
        return Coded(self.shapes[:, 1], self.shape)

    @property
    def threads(self) -> Coded:
        """How many threads a block has, or 0."""
        return Coded(self.shapes[:, 2], self.shape)

    @property
    def duration(self) -> IntArray:
        """`length`, wide enough for sums."""
        return self.length.astype(np.int64)

    def union(self, *kinds: int) -> Intervals:
        """The time in which an operation of one of these kinds ran; without arguments, of any
        kind.
        """
        if kinds in self._unions:
            return self._unions[kinds]
        parts = range(0, len(self.start), PART)
        covered = Intervals.join(self._unite(kinds, slice(first, first + PART)) for first in parts)
        if kinds == (COMMUNICATION,):  # many rules ask for it; others take 16 MB each
            self._unions[kinds] = covered
        return covered

    def _unite(self, kinds: Sequence[int], part: slice) -> Intervals:
        rows = self.length[part] > 0
        if kinds:
            rows &= is_among(self.kind[part], kinds)
        return Intervals.union(self.start[part][rows], self.end[part][rows])

    def measure_covered(self, kinds: Sequence[int], start: IntArray, end: IntArray) -> IntArray:
        """union(*kinds).within(start, end), without the union in memory."""
        times = np.r_[start, np.maximum(start, end)]
        edges = np.sort(times, kind="stable")  # both mostly rise
        before, covered = np.zeros(len(edges), np.int64), Cover()
        at = np.searchsorted(self.start, edges)
        for first in range(0, len(self.start), PART):
            part = slice(first, first + PART)
            rows = is_among(self.kind[part], kinds) if kinds else slice(None)
            inside = slice(*np.searchsorted(at, (first, first + PART), "right"))
            before[inside] = covered.add(
                self.start[part][rows], self.end[part][rows], edges[inside]
            )
        covered_before: IntArray = before[np.searchsorted(edges, times)]
        return covered_before[len(start) :] - covered_before[: len(start)]

    @cached_property
    def _unions(self) -> dict[tuple[int, ...], Intervals]:
        return {}


@dataclass(frozen=True, eq=False)
class Calls:
    """CUDA API calls of one process, sorted by start. `thread` is the place of the call's thread in
    `threads`, which are nsys' globalTids, ascending: 1 byte a call in place of 8.
    """

    start: IntArray
    length: Lengths
    thread: Threads
    name: IntArray
    threads: IntArray

    @property
    def end(self) -> Ends:
        return Ends(self.start, self.length)

    def thread_of(self, rows: IntArray) -> IntArray:
        """The globalTid of each of these calls."""
        return self.threads[self.thread[rows]]

    def number_of(self, thread: int) -> int:
        """The place of a globalTid in `threads`, or -1."""
        place = int(np.searchsorted(self.threads, thread))
        is_there = place < len(self.threads) and int(self.threads[place]) == thread
        return place if is_there else -1

    def longer_than(self, least: int) -> NDArray[np.bool_]:
        """A mask of the calls that take more ns."""
        return np.asarray(self.length > least, np.bool_)

    def match_names(self, names: Mapping[int, str], pattern: re.Pattern[str]) -> NDArray[np.bool_]:
        """A mask of the calls whose name matches the pattern."""
        return is_among(self.name, [key for key in self.name_ids if pattern.match(names[key])])

    @cached_property
    def name_ids(self) -> list[int]:
        """The ids of the calls' names."""
        return list_distinct(self.name)


@dataclass(frozen=True, eq=False)
class Activity:
    """The recording of one rank on one device of a `host`. Times are in ns on the report's clock.

    `gpu` is the model of the GPU. `names` maps the ids in Ops.name and Calls.name to texts.
    `leader` is set where one process drives several GPUs: the activity with most operations, whose
    steps are used for all devices of that process.
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
    leader: "Activity | None" = None
    shares_process: bool = False
    """The process drives several GPUs: `calls` holds the launches on all of them."""
    comm: CommCalls | None = None
    """The calls behind the operations of kind COMMUNICATION, in their order; None if not read."""
    captures: GraphCaptures | None = None
    marker_calls: Mapping[str, Places] = field(default_factory=dict)
    """By table (CUDA_EVENT, SYNCHRONIZATION): for each of its rows, in the file's order, the row of
    its process's call, or NO_CALL."""
    seams: IntArray = field(default_factory=lambda: np.empty((0, 2), np.int64))
    """(end of a window, start of the next one) of joined windows: nothing was recorded between."""

    @cached_property
    def launch_starts(self) -> Ends:
        """The start of the call that launched each operation (ns); the operation's own start
        without one.
        """
        # As delays: 5 MB in place of 10 of a million kernels.
        parts = range(0, max(1, len(self.ops.call)), PART)
        delays = [self._measure_delays(slice(first, first + PART)) for first in parts]
        return Ends(self.ops.start, np.concatenate(delays))

    def _measure_delays(self, rows: slice) -> Lengths:
        """How much later (ns) than each operation's start its launch is: mostly less than 0."""
        call, start = self.ops.call[rows], self.ops.start[rows]
        if not len(self.calls.start):
            return np.zeros(len(start), np.int32)
        delay = self.calls.start[call] - start
        delay[call == NO_CALL] = 0
        return narrow_differences(delay)

    def find_launched(self, begin: int, end: int) -> IntArray:
        """The operations launched from `begin` on and before `end`, in parts."""
        rows = [np.empty(0, np.int64)]
        for first in range(0, len(self.ops.start), PART):
            launched = self.launch_starts[first : first + PART]
            rows.append(first + np.flatnonzero((launched >= begin) & (launched < end)))
        return np.concatenate(rows)

    def launcher_of(self, rows: IntArray) -> IntArray:
        """The globalTid of the thread that launched each of these operations; NO_CALL where
        unknown.
        """
        call = self.ops.call[rows]
        if not len(self.calls.thread):
            return np.full(len(rows), NO_CALL)
        launchers = self.calls.thread_of(call)
        launchers[call == NO_CALL] = NO_CALL
        return launchers

    @cached_property
    def launchers(self) -> list[int]:
        """The globalTids of the threads that launch operations, ascending."""
        numbers = list_distinct(self.calls.thread[self.launches_op])
        return [int(self.calls.threads[number]) for number in numbers]

    @cached_property
    def launching(self) -> list[int]:
        """The places of `launchers` in Calls.threads."""
        return [self.calls.number_of(thread) for thread in self.launchers]

    @cached_property
    def launches_op(self) -> NDArray[np.bool_]:
        """A mask of the calls that launched an operation."""
        has_operation = np.zeros(len(self.calls.start) + 1, bool)
        has_operation[self.ops.call] = True  # NO_CALL (-1) writes the extra last cell
        return has_operation[:-1]

    @cached_property
    def known_owners(self) -> WeakKeyDictionary[Ranges, IntArray]:
        """What find_owners() has found so far."""
        return WeakKeyDictionary()


def find_owners(activity: Activity, ranges: Ranges) -> IntArray:
    """The index in `ranges` of the innermost range open at each operation's launch, or NO_RANGE."""
    known = activity.known_owners
    if ranges not in known:
        known[ranges] = find_innermost(
            ranges,
            activity.launcher_of(np.arange(len(activity.ops.call))),
            activity.launch_starts[:],
        )
    return known[ranges]
