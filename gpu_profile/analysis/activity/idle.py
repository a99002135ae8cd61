"""Why the GPU stood still: a cause for every gap between a rank's operations.

A gap ends with the operation that came next. If the host had asked for it before the gap began,
the GPU waited for something else: another stream or an event, or just its own latency between
two operations. Otherwise the host was late, and the question is why.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    COPY_TO_HOST,
    NO_CALL,
    Activity,
    Calls,
)
from gpu_profile.analysis.activity.nvtx_ranges import Ranges, find_innermost
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray

LAUNCH, STALL, SYNC, COPYING, QUEUED, LATENCY, PROFILER = range(7)
# launch: the host was busy issuing work but too slow. stall: it issued nothing for a long while
# (data loading, Python, I/O). sync, copy: a blocking call had used up the host's lead.
CAUSES = ("launch", "stall", "sync", "copy", "queued", "latency", "profiler")

# Frameworks need 5 to 100 us between two launches; a millisecond without one is other work.
LONG_GAP_NS = 1_000_000
# From one queued operation to the next a GPU takes 1 to 2 us, over an event up to some 20 us.
LATENCY_NS = 20_000
# Smaller transfers are staged: their cost is the wait for the GPU, as with .item().
STAGED_BYTES = 64 * 1024
SYNC_NAME = re.compile(
    r"cuda(Stream|Device|Event)Synchronize|cu(Stream|Ctx|Event)Synchronize|cudaThreadSynchronize"
)
COPY_NAME = re.compile(r"(?!.*Async)(cudaMemcpy|cuMemcpy|cudaMemset(_|$))")


@dataclass(frozen=True, eq=False)
class Gaps:
    """Sorted, disjoint. `cause` indexes CAUSES; `next_op` indexes Activity.ops.

    A gap whose lateness is only partly explained by a blocking call is cut in two there.
    """

    start: IntArray
    end: IntArray
    cause: IntArray
    next_op: IntArray

    def of(self, cause: int) -> Intervals:
        mine = self.cause == cause
        return Intervals.union(self.start[mine], self.end[mine])


@dataclass(frozen=True, eq=False)
class Blocking:
    """Calls that held a launching thread: `copies` marks transfers, the others only wait, also for
    a value of a few bytes (`.item()` into pageable memory is one cudaMemcpyAsync that blocks).

    `lead`: by how much the host could have run ahead instead (ns): the call's time less that in
    which the GPU itself only sat in exposed communication, which may be a wait for other ranks.
    """

    start: IntArray
    end: IntArray
    copies: NDArray[np.bool_]
    call: IntArray
    lead: IntArray
    moves: NDArray[np.bool_]


@once_each
def find_gaps(activity: Activity) -> Gaps:
    """Every gap between the first and the last operation of the rank, with its cause."""
    gaps, next_op, cause = _plain_gaps(activity)
    calls = blocking_calls(activity)
    # A long silence is told as the host's own, also where a lead would have hidden it.
    late = np.flatnonzero(cause == LAUNCH)
    blamed, blamer = _attribute_to_calls(gaps, late, activity.launched[next_op], calls)
    cut = gaps.start + blamed
    reason = np.where(calls.moves[blamer], COPYING, SYNC) if len(calls.start) else cause
    return _make_gaps(
        np.r_[gaps.start, cut], np.r_[cut, gaps.end], np.r_[reason, cause], np.r_[next_op, next_op]
    )


def _make_gaps(start: IntArray, end: IntArray, cause: IntArray, next_op: IntArray) -> Gaps:
    rows = np.flatnonzero(end > start)
    rows = rows[np.argsort(start[rows], kind="stable")]
    return Gaps(start[rows], end[rows], cause[rows], next_op[rows])


@once_each
def _plain_gaps(activity: Activity) -> tuple[Intervals, IntArray, IntArray]:
    """The gaps, the operation after each, and its cause by the gap alone."""
    gaps = activity.ops.union().gaps()
    next_op = np.searchsorted(activity.ops.start, gaps.end)
    return gaps, next_op, _classify_gaps(activity, gaps, next_op)


def _classify_gaps(activity: Activity, gaps: Intervals, next_op: IntArray) -> IntArray:
    """The cause by the gap alone, before any blocking call is blamed."""
    ops = activity.ops
    length = gaps.end - gaps.start
    # Whose call is not in the report cannot be called late.
    late = (activity.launched[next_op] > gaps.start) & (ops.call[next_op] != NO_CALL)
    cause = np.where(length >= LONG_GAP_NS, STALL, LAUNCH)
    # The driver stages a pageable copy through its own buffer: asked for, and not yet running.
    staged = (ops.kind[next_op] == COPY) & ops.pageable[next_op]
    queued = np.where(length < LATENCY_NS, LATENCY, QUEUED)
    cause = np.where(late, cause, np.where(staged, COPYING, queued))
    overhead = activity.overhead.within(gaps.start, gaps.end)
    return np.where(2 * overhead > length, PROFILER, cause)


@once_each
def blocking_calls(activity: Activity) -> Blocking:
    """Synchronisations and blocking transfers on the threads that launch, sorted by end."""
    calls, names = activity.calls, activity.names
    launchers = [thread for thread in list_distinct(activity.launcher) if thread != NO_CALL]
    sync = calls.named(names, SYNC_NAME)
    copies = _blocking_copies(activity)
    rows = np.flatnonzero(sync | copies)
    rows = rows[is_among(calls.thread[rows], launchers)]
    rows = rows[np.argsort(calls.end[rows], kind="stable")]
    start, end = calls.start[rows], calls.end[rows]
    exposed = activity.ops.union(COMMUNICATION).minus(activity.ops.union(COMPUTE))
    lead = end - start - exposed.within(start, end)
    moves = (copies & ~sync & ~_asks_for_values(activity))[rows]
    first = _first_of_chain(activity, start, end)
    together, moving = (_summed_from(first, part) for part in (lead, lead * moves))
    return Blocking(start, end, moves, rows, together, 2 * moving > together)


def _first_of_chain(activity: Activity, start: IntArray, end: IntArray) -> IntArray:
    """For each call, the first of those without a launch between them and it."""
    launched = np.sort(activity.launched)
    before = np.searchsorted(launched, end[:-1], side="right")
    alone = np.r_[True, np.searchsorted(launched, start[1:], side="right") > before]
    return np.maximum.accumulate(np.where(alone[: len(start)], np.arange(len(start)), 0))


def _summed_from(first: IntArray, value: IntArray) -> IntArray:
    """The sum of the values from each one's first to itself."""
    sums = np.r_[0, np.cumsum(value)]
    return np.asarray(sums[1:] - sums[first], np.int64)


def _blocking_copies(activity: Activity) -> NDArray[np.bool_]:
    """Calls of a synchronous name, and asynchronous ones that a pageable side makes block."""
    calls: Calls = activity.calls
    ops = activity.ops
    blocks = calls.named(activity.names, COPY_NAME)
    pageable = ops.call[(ops.kind == COPY) & ops.pageable & (ops.call != NO_CALL)]
    blocks[pageable] = True
    return blocks


def _asks_for_values(activity: Activity) -> NDArray[np.bool_]:
    """Calls that copy less than STAGED_BYTES to the host."""
    ops = activity.ops
    small = (ops.kind == COPY) & (ops.copy_kind == COPY_TO_HOST) & (ops.bytes < STAGED_BYTES)
    asks = np.zeros(len(activity.calls.start), bool)
    asks[ops.call[small & (ops.call != NO_CALL)]] = True
    return asks


def _attribute_to_calls(
    gaps: Intervals, late: IntArray, launched: IntArray, calls: Blocking
) -> tuple[IntArray, IntArray]:
    """How much of each gap a blocking call explains, and which call (index into `calls`).

    A call is to blame for at most the lead it cost, out of the lateness until the next such
    call. In a run that the host holds up anyway the call returns at once and explains nothing.
    """
    blamed = np.zeros(len(gaps.start), np.int64)
    blamer = np.zeros(len(gaps.start), np.int64)
    last = np.searchsorted(calls.end, launched[late], side="right") - 1
    late, last = late[last >= 0], last[last >= 0]
    if not len(late):
        return blamed, blamer
    length = gaps.end[late] - gaps.start[late]
    sums = np.cumsum(length)
    first = np.r_[True, last[1:] != last[:-1]]
    before = np.maximum.accumulate(np.where(first, sums - length, 0))
    budget = calls.lead[last]
    spent = np.minimum(sums - before, budget) - np.minimum(sums - length - before, budget)
    blamed[late], blamer[late] = spent, last
    return blamed, blamer


def sync_shadow(activity: Activity) -> tuple[IntArray, IntArray]:
    """(start, ns) of idle time that would not be but for a synchronisation: "sync", and what of
    "launch" and "stall" the lead that the call cost would have hidden. So the same moment may
    be won in two ways: by working less in the silence, or by not waiting before it."""
    (gaps, next_op, cause), calls = _plain_gaps(activity), blocking_calls(activity)
    late = np.flatnonzero((cause == LAUNCH) | (cause == STALL))
    blamed, blamer = _attribute_to_calls(gaps, late, activity.launched[next_op], calls)
    if not len(calls.start):
        return gaps.start, blamed
    return gaps.start, np.where(calls.moves[blamer], 0, blamed)


def ranges_at(activity: Activity, ranges: Ranges, gaps: Gaps) -> IntArray:
    """Index of the range in which the host was, half way to the launch that ended each gap."""
    launched = np.maximum(activity.launched[gaps.next_op], gaps.start)
    thread = activity.launcher[gaps.next_op]
    return find_innermost(ranges, thread, (gaps.start + launched) // 2)
