"""Find the idle gaps of a GPU and a cause for each gap.

A gap ends with the start of the next operation. If the host had launched that operation before the
gap began, the GPU waited for another stream or an event, or the gap is its own latency between two
operations. Otherwise the host was late, and the cause says why.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COPY, NO_CALL, Activity, Ops
from gpu_profile.analysis.activity.idle.blocking_calls import Blocking, blocking_calls
from gpu_profile.analysis.activity.idle.stalls import (
    SHORTEST_LONG_GAP_NS,
    choose_stall,
    count_late_pauses,
    find_least_stall,
    find_sure_stall,
)
from gpu_profile.analysis.activity.nvtx_ranges import Ranges, find_innermost
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.columns import narrow_column
from gpu_profile.analysis.arrays.intervals import PART, Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray, Places

LAUNCH, STALL, SYNC, COPYING, QUEUED, LATENCY, PROFILER, UNASKED = range(8)
# launch: the host was busy issuing work but too slow. stall: it issued nothing for a long while
# (data loading, Python, I/O). sync, copy: a blocking call had used up the host's lead. unasked: an
# engine had no request.
CAUSES = ("launch", "stall", "sync", "copy", "queued", "latency", "profiler", "unasked")

# A GPU takes 1 to 2 us from one queued operation to the next, and up to some 20 us over an event.
LATENCY_NS = 20_000


@dataclass(frozen=True, eq=False)
class Gaps:
    """Idle gaps of a GPU, sorted and disjoint. `cause` indexes CAUSES; `next_op` indexes
    Activity.ops.

    If a blocking call explains only part of a gap, the gap is cut in two at that point.
    """

    start: IntArray
    end: IntArray
    cause: NDArray[np.int8]
    next_op: IntArray

    def of(self, cause: int) -> Intervals:
        chosen = np.flatnonzero(self.cause == cause)
        return Intervals.union(self.start[chosen], self.end[chosen])


@once_each
def find_gaps(activity: Activity) -> Gaps:
    """Every gap between the first and the last operation of the rank, with its cause."""
    # Before the gaps are in memory, of which a report of a million kernels has 700,000.
    calls, _ = blocking_calls(activity), find_least_stall(activity)
    gaps, next_op, cause = _find_plain_gaps(activity)
    # Only short gaps are attributed to a blocking call. A long STALL stays with the host, even if a
    # lead would have hidden it.
    of_host = (cause == LAUNCH) | (cause == STALL)
    sure_stall = find_sure_stall(activity, _pick_long(gaps, of_host, SHORTEST_LONG_GAP_NS))
    is_short = gaps.end - gaps.start < sure_stall
    late = narrow_column(np.flatnonzero((cause == LAUNCH) | ((cause == STALL) & is_short)))
    held, blamed, blamer = _attribute_to_calls(
        gaps, late, activity.launch_starts[next_op[late]], calls
    )
    del of_host, is_short, late
    reason = np.where(calls.moves[blamer], COPYING, SYNC).astype(np.int8)
    return _cut_gaps(gaps, next_op, cause, held, blamed, reason)


def _cut_gaps(
    gaps: Intervals,
    next_op: IntArray,
    cause: NDArray[np.int8],
    held: IntArray,
    blamed: IntArray,
    reason: NDArray[np.int8],
) -> Gaps:
    """The gaps, of which those `held` are cut after the time that a call explains."""
    start, end = gaps.start, gaps.end
    begin = start[held]
    start[held] += blamed
    cut = start[held]
    # Column by column, each of which frees the one before: 30 of 45 MB of 500,000 gaps.
    start, end = np.insert(start, held, begin), np.insert(end, held, cut)
    left = start < end
    start = start[left]
    end = end[left]
    cause = np.insert(cause, held, reason)[left]
    next_op = np.insert(next_op, held, next_op[held])[left]
    return Gaps(start, end, cause, next_op)


def _find_plain_gaps(activity: Activity) -> tuple[Intervals, IntArray, NDArray[np.int8]]:
    """The gaps, the operation after each, and the cause without regard to blocking calls."""
    gaps = _find_uncovered(activity.ops)
    next_op = narrow_column(np.searchsorted(activity.ops.start, gaps.end, "left"))
    return gaps, next_op, _classify_gaps(activity, gaps, next_op)


def _find_uncovered(ops: Ops) -> Intervals:
    """The time from the first operation to the last in which none ran.

    An operation of 0 ns covers no time, but may be the first or the last.
    """
    busy, last = ops.union(), ops.end.max()
    if len(busy.start) and ops.start[0] == busy.start[0] and busy.end[-1] == last:
        return busy.gaps()
    start, end = np.r_[ops.start[:1], busy.end], np.r_[busy.start, last]
    return Intervals(start[end > start], end[end > start])


def _classify_gaps(activity: Activity, gaps: Intervals, next_op: IntArray) -> NDArray[np.int8]:
    """The cause of each gap, without regard to blocking calls."""
    late, cause = np.empty(len(next_op), np.bool_), np.empty(len(next_op), np.int8)
    parts = [slice(first, first + PART) for first in range(0, len(next_op), PART)]
    for part in parts:
        # An operation without a recorded call has no launch time, so it cannot be called late.
        late[part] = activity.launch_starts[next_op[part]] > gaps.start[part]
        late[part] &= activity.ops.call[next_op[part]] != NO_CALL
    least = find_least_stall(activity)
    counts = count_late_pauses(activity, _pick_long(gaps, late, least), least)
    long = choose_stall(activity, counts)
    for part in parts:
        cause[part] = _classify_part(activity, gaps.pick(part), next_op[part], late[part], long)
    return cause


def _pick_long(gaps: Intervals, chosen: Flags, least: int) -> Intervals:
    """The chosen gaps of `least` ns and more."""
    rows = np.flatnonzero(chosen & (gaps.end - gaps.start >= least))
    return Intervals(gaps.start[rows], gaps.end[rows])


def _classify_part(
    activity: Activity, gaps: Intervals, next_op: IntArray, late: Flags, long: int
) -> NDArray[np.int8]:
    """The cause of each of these gaps; a late one of `long` ns and more is a stall."""
    ops, length = activity.ops, gaps.end - gaps.start
    # The driver first copies pageable memory into its own pinned buffer: launched, but not yet
    # running on the GPU. https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html
    staged = (ops.kind[next_op] == COPY) & ops.pageable[next_op]
    cause = np.full(len(length), LAUNCH, np.int8)
    cause[length >= long] = STALL
    cause[~late] = QUEUED
    cause[~late & (length < LATENCY_NS)] = LATENCY
    cause[~late & staged] = COPYING
    for pieces, reason in (
        (activity.overhead, PROFILER),
        # Ranks start a window milliseconds apart: the profiler holds them up, not their host.
        (Intervals.union(activity.seams[:, 0], activity.seams[:, 1]), PROFILER),
        (_find_pauses(activity), UNASKED),
    ):
        cause[2 * pieces.within(gaps.start, gaps.end) > length] = reason
    return cause


def _find_pauses(activity: Activity) -> Intervals:
    """The time in which an engine had no request."""
    steps = find_steps(activity)
    rows = np.flatnonzero(steps.empty_ns)
    return Intervals.union(steps.end[rows], steps.end[rows] + steps.empty_ns[rows])


def _attribute_to_calls(
    gaps: Intervals, late: IntArray, launched: IntArray, calls: Blocking
) -> tuple[IntArray, IntArray, IntArray]:
    """The gaps that blocking calls explain, how much of each (ns), and the index of the call in
    `calls`. `launched`: when what ended each late gap was launched.

    A call explains at most its `lead`, spent on the gaps until the next blocking call. Example: a
    call with a lead of 50 us before gaps of 30 and 40 us explains 30 and 20 us. If the host is
    slower than the GPU, the call returns at once, its lead is 0, and it explains nothing.
    """
    last = narrow_column(np.searchsorted(calls.end, launched, "right") - 1)
    # The extra last lead is of no call (-1).
    chosen = np.append(calls.lead, 0)[last] > 0
    late, last = late[chosen], last[chosen]
    length = gaps.end[late] - gaps.start[late]
    until, budget = np.cumsum(length), calls.lead[last]
    first = np.r_[True, last[1:] != last[:-1]][: len(last)]
    until -= np.maximum.accumulate(np.where(first, until - length, 0))
    since = until - length
    # In place, as each column has up to 5 MB of a report of a million kernels.
    spent = np.minimum(until, budget, out=until)
    spent -= np.minimum(since, budget, out=since)
    some = spent != 0
    return late[some], spent[some], last[some]


def ranges_at(activity: Activity, ranges: Ranges, gaps: Gaps) -> Places:
    """The index of the innermost range open on the launching thread in the middle of each gap, up
    to the launch that ended it.
    """
    index = np.empty(len(gaps.start), np.int32)
    for first in range(0, len(index), PART):
        part = slice(first, first + PART)
        next_op, start = gaps.next_op[part], gaps.start[part]
        launched = np.maximum(activity.launch_starts[next_op], start)
        thread = activity.launcher_of(next_op)
        index[part] = find_innermost(ranges, thread, (start + launched) // 2)
    return index
