"""Find the idle gaps of a GPU and a cause for each gap.

A gap ends with the start of the next operation. If the host had launched that operation before the
gap began, the GPU waited for another stream or an event, or the gap is its own latency between two
operations. Otherwise the host was late, and the cause says why.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import (
    COPY,
    COPY_TO_HOST,
    NO_CALL,
    SYNC_NAME,
    Activity,
    Calls,
    Ops,
)
from gpu_profile.analysis.activity.common_steps import first_steady
from gpu_profile.analysis.activity.nvtx_ranges import Ranges, find_innermost
from gpu_profile.analysis.activity.step_period import GRAPH_CALL
from gpu_profile.analysis.activity.steps import find_steps
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray

LAUNCH, STALL, SYNC, COPYING, QUEUED, LATENCY, PROFILER = range(7)
# launch: the host was busy issuing work but too slow. stall: it issued nothing for a long while
# (data loading, Python, I/O). sync, copy: a blocking call had used up the host's lead.
CAUSES = ("launch", "stall", "sync", "copy", "queued", "latency", "profiler")

# Frameworks take 5 to 100 us from one launch to the next; after 1 ms without a launch the host is
# doing other work. So it is after a tenth of a shorter step, if that comes once or twice in a step:
# more such gaps are those of slow launches. In a pause as long as 20 of the program's own launches
# it does other work however often that comes, such as Python between two tokens.
LONG_GAP_NS, SHORTEST_LONG_GAP_NS = 1_000_000, 100_000
LONG_GAP_SHARE, MOST_LONG_GAPS = 0.1, 2
LAUNCHES_LONG, SHORTEST_PAUSE_NS = 20, 250_000
# A CUDA graph is one launch for much work, so a longer pause before most of them is no launching.
LONGEST_LAUNCH_NS = 100_000
# A GPU takes 1 to 2 us from one queued operation to the next, and up to some 20 us over an event.
LATENCY_NS = 20_000
# For smaller transfers, such as .item(), the time goes into waiting for the GPU, not into the
# copy.
STAGED_BYTES = 64 * 1024
COPY_NAME = re.compile(r"(?!.*Async)(cudaMemcpy|cuMemcpy|cudaMemset(_|$))")


@dataclass(frozen=True, eq=False)
class Gaps:
    """Idle gaps of a GPU, sorted and disjoint. `cause` indexes CAUSES; `next_op` indexes
    Activity.ops.

    If a blocking call explains only part of a gap, the gap is cut in two at that point.
    """

    start: IntArray
    end: IntArray
    cause: IntArray
    next_op: IntArray

    def of(self, cause: int) -> Intervals:
        chosen = np.flatnonzero(self.cause == cause)
        return Intervals.union(self.start[chosen], self.end[chosen])


@dataclass(frozen=True, eq=False)
class Blocking:
    """Calls that blocked a thread that launches work; arrays of one length, `call` indexes Calls.

    `copies` marks transfers. The other calls only wait, also for a value of a few bytes: `.item()`
    into pageable memory is one cudaMemcpyAsync that blocks. `lead` (ns) is how far the host could
    have run ahead: the time of this call and of the blocking calls since the last launch, less the
    time in which the GPU ran only communication, which may be a wait for other ranks. `moves`:
    transfers are more than half of the lead.
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
    # Only short gaps are attributed to a blocking call. A long STALL stays with the host, even if a
    # lead would have hidden it.
    is_short = gaps.end - gaps.start < _find_sure_stall(activity, gaps, cause)
    late = np.flatnonzero((cause == LAUNCH) | ((cause == STALL) & is_short))
    blamed, blamer = _attribute_to_calls(gaps, late, activity.launched[next_op], calls)
    cut = gaps.start + blamed
    held, left = np.flatnonzero(blamed), np.flatnonzero(cut < gaps.end)
    start = np.r_[gaps.start[held], cut[left]]
    order = np.argsort(start, kind="stable")
    reason = np.where(calls.moves[blamer[held]], COPYING, SYNC)
    return Gaps(
        start[order],
        np.r_[cut[held], gaps.end[left]][order],
        np.r_[reason, cause[left]][order],
        np.r_[next_op[held], next_op[left]][order],
    )


@once_each
def _plain_gaps(activity: Activity) -> tuple[Intervals, IntArray, IntArray]:
    """The gaps, the operation after each, and the cause without regard to blocking calls."""
    gaps = _uncovered(activity.ops)
    next_op = np.searchsorted(activity.ops.start, gaps.end, "left")
    return gaps, next_op, _classify_gaps(activity, gaps, next_op)


def _uncovered(ops: Ops) -> Intervals:
    """The time from the first operation to the last in which none ran.

    An operation of 0 ns covers no time, but may be the first or the last.
    """
    busy, last = ops.union(), ops.end.max(keepdims=True)
    start, end = np.r_[ops.start[:1], busy.end], np.r_[busy.start, last]
    return Intervals(start[end > start], end[end > start])


def _classify_gaps(activity: Activity, gaps: Intervals, next_op: IntArray) -> IntArray:
    """The cause of each gap, without regard to blocking calls."""
    ops = activity.ops
    length = gaps.end - gaps.start
    # An operation without a recorded call has no launch time, so it cannot be called late.
    late = (activity.launched[next_op] > gaps.start) & (ops.call[next_op] != NO_CALL)
    late_gaps = Intervals(gaps.start[late], gaps.end[late])
    counts = _count_long(activity, late_gaps, find_least_stall(activity))
    long = choose_stall(activity, counts)
    cause = np.where(length >= long, STALL, LAUNCH)
    # The driver first copies pageable memory into its own pinned buffer: launched, but not yet
    # running on the GPU.
    staged = (ops.kind[next_op] == COPY) & ops.pageable[next_op]
    queued = np.where(length < LATENCY_NS, LATENCY, QUEUED)
    cause = np.where(late, cause, np.where(staged, COPYING, queued))
    # Ranks start a window milliseconds apart: the profiler holds them up there, not their host.
    seams = Intervals.union(activity.seams[:, 0], activity.seams[:, 1])
    in_overhead = activity.overhead.within(gaps.start, gaps.end)
    in_seams = seams.within(gaps.start, gaps.end)
    return np.where(2 * np.maximum(in_overhead, in_seams) > length, PROFILER, cause)


def _count_long(activity: Activity, late: Intervals, least: int) -> IntArray:
    """The number of these gaps of at least `least` ns in each steady step."""
    steps = find_steps(activity)
    begins = np.sort(late.start[late.end - late.start >= least])
    counts = np.diff(np.searchsorted(begins, np.r_[steps.start, steps.end[-1:]]))
    return np.asarray(counts[first_steady(steps.end - steps.start) :], np.int64)


def _find_sure_stall(activity: Activity, gaps: Intervals, cause: IntArray) -> int:
    """From which length (ns) a stall is not a blocking call's, too: 1 ms, or a tenth of a shorter
    step, if that comes at most twice a step.
    """
    late = (cause == LAUNCH) | (cause == STALL)
    least = _find_tenth(activity)
    counts = _count_long(activity, Intervals(gaps.start[late], gaps.end[late]), least)
    are_few = len(counts) and np.median(counts) <= MOST_LONG_GAPS
    return least if are_few else LONG_GAP_NS


def choose_stall(activity: Activity, counts: IntArray) -> int:
    """From which length (ns) a pause of the host is a stall, given by step the number of those that
    find_least_stall() tells.
    """
    are_few = len(counts) and np.median(counts) <= MOST_LONG_GAPS
    return find_least_stall(activity) if are_few else _find_long_pause(activity)


@once_each
def find_least_stall(activity: Activity) -> int:
    """From which length (ns) a pause of the host may be a stall: that of LAUNCHES_LONG launches, or
    a tenth of a shorter step.
    """
    return min(_find_long_pause(activity), _find_tenth(activity))


def _find_tenth(activity: Activity) -> int:
    steps = find_steps(activity)
    time = (steps.end - steps.start)[first_steady(steps.end - steps.start) :]
    share = int(LONG_GAP_SHARE * float(np.median(time))) if len(time) else LONG_GAP_NS
    return min(LONG_GAP_NS, max(SHORTEST_LONG_GAP_NS, share))


@once_each
def _find_long_pause(activity: Activity) -> int:
    """The time (ns) of LAUNCHES_LONG launches, from SHORTEST_PAUSE_NS to LONG_GAP_NS, by the median
    pause between the launches of a thread.
    """
    calls, pauses = activity.calls, list[IntArray]()
    rows = np.flatnonzero(activity.asked)
    for thread in list_distinct(calls.thread[rows]):
        of_thread = rows[calls.thread[rows] == thread]
        pauses.append(calls.start[of_thread[1:]] - calls.end[of_thread[:-1]])
    length = np.concatenate(pauses) if pauses else np.empty(0, np.int64)
    if not len(length):
        return LONG_GAP_NS
    usual = float(np.median(length))
    graphs = calls.match_names(activity.names, GRAPH_CALL)[rows]
    if usual > LONGEST_LAUNCH_NS and 2 * np.count_nonzero(graphs) > len(graphs):
        return SHORTEST_PAUSE_NS
    return min(LONG_GAP_NS, max(SHORTEST_PAUSE_NS, int(LAUNCHES_LONG * usual)))


@once_each
def blocking_calls(activity: Activity) -> Blocking:
    """Synchronisations and blocking transfers on the threads that launch work, sorted by end."""
    calls, names = activity.calls, activity.names
    launchers = [thread for thread in list_distinct(activity.launcher) if thread != NO_CALL]
    sync = calls.match_names(names, SYNC_NAME)
    copies = _blocking_copies(activity)
    rows = np.flatnonzero(sync | copies)
    rows = rows[is_among(calls.thread[rows], launchers)]
    rows = rows[np.argsort(calls.end[rows], kind="stable")]
    start, end = calls.start[rows], calls.end[rows]
    lead = end - start - activity.ops.exposed.within(start, end)
    moves = (copies & ~sync & ~_asks_for_values(activity))[rows]
    first = _first_of_chain(activity, start, end)
    together, moving = (_summed_from(first, part) for part in (lead, lead * moves))
    return Blocking(start, end, moves, rows, together, 2 * moving > together)


def _first_of_chain(activity: Activity, start: IntArray, end: IntArray) -> IntArray:
    """For each call, the index of the first call since the last launch."""
    launched = np.sort(activity.launched, kind="stable")  # they mostly rise
    before = np.searchsorted(launched, end[:-1], side="right")
    is_first = np.r_[True, np.searchsorted(launched, start[1:], side="right") > before]
    return np.maximum.accumulate(np.where(is_first[: len(start)], np.arange(len(start)), 0))


def _summed_from(first: IntArray, value: IntArray) -> IntArray:
    """For each index i the sum of value[first[i]] to value[i]."""
    sums = np.r_[0, np.cumsum(value)]
    return np.asarray(sums[1:] - sums[first], np.int64)


def _blocking_copies(activity: Activity) -> NDArray[np.bool_]:
    """A mask of the calls that copy and block, by their name or because of pageable memory."""
    calls: Calls = activity.calls
    ops = activity.ops
    blocks = calls.match_names(activity.names, COPY_NAME)
    pageable = ops.call[(ops.kind == COPY) & ops.pageable & (ops.call != NO_CALL)]
    blocks[pageable] = True
    return blocks


def _asks_for_values(activity: Activity) -> NDArray[np.bool_]:
    """A mask of the calls that copy less than STAGED_BYTES to the host."""
    ops = activity.ops
    small = (ops.kind == COPY) & (ops.copy_kind == COPY_TO_HOST) & (ops.bytes < STAGED_BYTES)
    asks = np.zeros(len(activity.calls.start), bool)
    asks[ops.call[small & (ops.call != NO_CALL)]] = True
    return asks


def _attribute_to_calls(
    gaps: Intervals, late: IntArray, launched: IntArray, calls: Blocking
) -> tuple[IntArray, IntArray]:
    """How much of each gap (ns) a blocking call explains, and the index of that call in `calls`.

    A call explains at most its `lead`, spent on the gaps until the next blocking call. Example: a
    call with a lead of 50 us before gaps of 30 and 40 us explains 30 and 20 us. If the host is
    slower than the GPU, the call returns at once, its lead is 0, and it explains nothing.
    """
    blamed = np.zeros(len(gaps.start), np.int64)
    blamer = np.zeros(len(gaps.start), np.int64)
    last = np.searchsorted(calls.end, launched[late], "right") - 1
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


def ranges_at(activity: Activity, ranges: Ranges, gaps: Gaps) -> IntArray:
    """The index of the innermost range open on the launching thread in the middle of each gap, up
    to the launch that ended it.
    """
    launched = np.maximum(activity.launched[gaps.next_op], gaps.start)
    thread = activity.launcher[gaps.next_op]
    return find_innermost(ranges, thread, (gaps.start + launched) // 2)
