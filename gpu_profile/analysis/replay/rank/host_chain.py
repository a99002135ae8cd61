"""The CUDA calls of a process's launching threads in the window, and how the threads take turns."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import (
    ALLOCATION_NAME,
    COMMUNICATION,
    COMPUTE,
    COPY,
    COPY_TO_HOST,
    SYNC_NAME,
    Activity,
)
from gpu_profile.analysis.activity.graph_captures import INSTANTIATE_NAME
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES
from gpu_profile.analysis.activity.idle.handed_reads import find_handed_reads
from gpu_profile.analysis.activity.idle.stalls import choose_stall, find_least_stall
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.types import Flags, IntArray, Places
from gpu_profile.analysis.replay.rank.rank_graph import make_pairs
from gpu_profile.analysis.replay.rank.window import Window

HANDOVER_NS = 5_000
"""A thread that another one wakes goes on later than that; less lies between calls of its own."""
MOST_TURNS = 0.05
"""The part of calls that follow one of another thread. It is 0.1 to 2.4 % where autograd's thread
and the main thread hand work to each other, 17 to 49 % where each thread has work of its own."""
OFTEN = 0.3
"""The part of the launches that follow one of another thread from which on a thread's pauses begin
where it takes over. It is 43 to 60 % in JAX, which sets its context and records an event for each
launch, so that 4 to 7 % of its calls are; and 0.2 to 0.3 % in eager PyTorch."""
MOST_SILENT, LEAST_WAITS = 0.1, 2
"""A thread waits for what others hand to it if it pauses LEAST_WAITS times a step, and the whole
process is silent in at most MOST_SILENT of that time. XLA's copying threads pause 3 times a step,
for 126 of 132 ms in which the main thread launches. One that loads data pauses once a step."""


@dataclass(frozen=True, eq=False)
class HostChain:
    """`rows`: calls that are in no other call, sorted by thread and start; rows of Activity.calls.
    `nested_calls`: calls in other calls, ascending, which `holders` hold. `is_first`: the first of
    its thread in `rows`. `handovers`: (call, call of another thread that goes on when it has
    ended). `are_beside`: the threads work beside each other. `take_over`: they pause from where
    they take over, not from their own last call.
    """

    rows: IntArray
    nested_calls: IntArray
    holders: IntArray
    is_first: Flags
    handovers: Places
    are_beside: bool
    take_over: bool

    def find_outer(self, call: IntArray) -> IntArray:
        """For each call the one that holds it, else itself."""
        if not len(self.nested_calls):
            return call
        place = np.minimum(np.searchsorted(self.nested_calls, call), len(self.nested_calls) - 1)
        return np.where(self.nested_calls[place] == call, self.holders[place], call)

    def mark_outer(self, flags: Flags) -> Flags:
        """The flags over chain.rows, with those of nested calls at the calls that hold them."""
        flags[self.holders[flags[self.nested_calls]]] = True
        return flags[self.rows]


def chain_calls(activity: Activity, window: Window) -> HostChain:
    """The calls of the window, thread by thread."""
    calls = activity.calls
    first, stop = np.searchsorted(calls.start, (window.begin, window.end)).tolist()
    rows = first + np.flatnonzero(is_among(calls.thread[first:stop], activity.launching))
    rows = rows[np.argsort(calls.thread[rows], kind="stable")]
    is_first = _mark_first(calls.thread[rows])
    group = np.cumsum(is_first) - 1
    # by a separate stretch of time for each thread, one running maximum serves all threads
    apart = int(calls.end[rows].max(initial=0)) + 1
    reach = np.maximum.accumulate(calls.end[rows] + group * apart)
    nested = np.r_[False, calls.end[rows][1:] + group[1:] * apart <= reach[:-1]][: len(rows)]
    holder = np.maximum.accumulate(np.where(nested, 0, np.arange(len(rows))))
    inner, outer = rows[nested], rows[holder[nested]]
    order = np.argsort(inner)
    rows = rows[~nested]
    by_start = rows[np.argsort(calls.start[rows], kind="stable")]
    are_beside = _measure_turns(calls.thread[by_start]) > MOST_TURNS
    handovers = _find_handovers(activity, window, by_start, are_beside)
    is_first = _mark_first(calls.thread[rows])
    launches = by_start[activity.launches_op[by_start]]
    take_over = are_beside or _measure_turns(calls.thread[launches]) > OFTEN
    nested = inner[order], outer[order]
    return HostChain(rows, *nested, is_first, handovers, are_beside, take_over)


def _measure_turns(thread: IntArray) -> float:
    """The part of the calls, given their threads in order, that follow one of another thread."""
    return float(np.mean(np.diff(thread) != 0)) if len(thread) > 1 else 0.0


def _mark_first(thread: IntArray) -> Flags:
    return np.asarray(np.r_[True, thread[1:] != thread[:-1]][: len(thread)], np.bool_)


def _find_handovers(
    activity: Activity, window: Window, by_start: IntArray, are_beside: bool
) -> Places:
    """(call, call of another thread that goes on when it has ended), of calls sorted by start.

    torch's backward runs on a thread of autograd while the main thread waits for it without a CUDA
    call, and the other way round. Where threads work beside each other, only those that wait for
    others take over, as for what they read (HandedReads).
    """
    takers = list_distinct(activity.calls.thread[by_start])
    if are_beside:
        least, reads = find_least_stall(activity), find_handed_reads(activity)
        of_reads = list_distinct(activity.calls.thread[np.r_[reads.request, reads.begin]])
        takers = [
            thread
            for thread in takers
            if thread in of_reads or _waits(activity, window, by_start, thread, least)
        ]
    pairs = [_list_handovers(activity, by_start, number) for number in takers]
    return np.concatenate([make_pairs([], []), *pairs])


def _list_handovers(activity: Activity, by_start: IntArray, number: int) -> Places:
    """The hand-overs to one thread."""
    calls = activity.calls
    thread = calls.thread[by_start]
    of_thread, others = by_start[thread == number], by_start[thread != number]
    if not len(others):
        return make_pairs([], [])
    others = others[np.argsort(calls.end[others], kind="stable")]
    # Half of the least number: `start - before` below must not overflow.
    before = np.r_[np.iinfo(np.int64).min // 2, calls.end[of_thread[:-1]]]
    place = np.searchsorted(calls.end[others], calls.start[of_thread], "right") - 1
    last = others[np.maximum(place, 0)]
    takes_over = (place >= 0) & (calls.end[last] > before)
    takes_over &= calls.start[of_thread] - before > HANDOVER_NS
    return make_pairs(last[takes_over], of_thread[takes_over])


def _waits(activity: Activity, window: Window, by_start: IntArray, thread: int, least: int) -> bool:
    """Whether the thread's pauses are those of one that waits for other threads."""
    calls = activity.calls
    of_thread = by_start[calls.thread[by_start] == thread]
    begin, end = calls.end[of_thread[:-1]], calls.start[of_thread[1:]]
    paused = end - begin >= least
    if np.count_nonzero(paused) < LEAST_WAITS * window.count:
        return False
    starts = calls.start[by_start]
    still = np.diff(starts) >= least
    silences = Intervals.union(starts[:-1][still], starts[1:][still])
    silent = silences.within(begin[paused], end[paused])
    return bool(silent.sum() <= MOST_SILENT * (end - begin)[paused].sum())


def choose_calls(activity: Activity, chain: HostChain, linked: IntArray) -> Flags:
    """A mask over chain.rows of the calls that the graph keeps: the first of each thread, those
    that launch, wait, allocate or instantiate a graph, and those that links name (`linked`, rows of
    Activity.calls).
    """
    calls = activity.calls
    keep = np.zeros(len(calls.start), bool)
    keep[linked] = True
    for name in (SYNC_NAME, ALLOCATION_NAME, INSTANTIATE_NAME):
        keep |= calls.match_names(activity.names, name)
    launches = chain.mark_outer(activity.launches_op.copy())
    return np.asarray(keep[chain.rows] | launches | chain.is_first, np.bool_)


def sum_silences(activity: Activity, window: Window, chain: HostChain, keep: Flags) -> IntArray:
    """For each kept call the time (ns) of long pauses since the kept call before it.

    Frameworks take 5 to 100 us from one launch to the next; a longer silence is other work. How
    long is that of an idle gap's cause "stall": see activity/idle/stalls.py.
    """
    calls = activity.calls
    start = calls.start[chain.rows]
    pause = start - _find_begins(activity, chain, chain.are_beside)
    long = start[pause >= find_least_stall(activity)]
    counts = np.bincount(window.steps_of(long), minlength=window.count)
    stall = choose_stall(activity, counts)
    pause = start - _find_begins(activity, chain, chain.take_over)
    pause[(pause < stall) & ~_join_pauses(activity, chain, pause, stall)] = 0
    sums = np.r_[0, np.cumsum(pause)]
    rows = np.flatnonzero(keep)
    before = np.r_[0, rows[:-1] + 1][: len(rows)]
    return np.where(chain.is_first[rows], pause[rows], sums[rows + 1] - sums[before])


def _find_begins(activity: Activity, chain: HostChain, take_over: bool) -> IntArray:
    """For each call of the chain when its thread could go on: at the end of the call before it, and
    where threads `take_over` of the call that it takes over from. The main thread of JAX works 0.3
    ms on a copy before it hands it over. A thread's first call always takes over: XLA compiles for
    170 ms on a thread that then makes the calls of its own. Where it takes over from none, it
    begins as it did.
    """
    calls, rows = activity.calls, chain.rows
    before = np.r_[0, calls.end[rows[:-1]]][: len(rows)]
    by_call = np.zeros(len(calls.start), np.int64)
    source, target = chain.handovers.T
    np.maximum.at(by_call, target, calls.end[source])
    handed = by_call[rows]
    first = np.where(handed > 0, handed, calls.start[rows])
    if take_over:
        reads = find_handed_reads(activity).pick_waited()
        by_call[reads.begin] = activity.ops.end[reads.op]
        before = np.maximum(before, by_call[rows])
    return np.asarray(np.where(chain.is_first, first, before), np.int64)


def _join_pauses(activity: Activity, chain: HostChain, pause: IntArray, stall: int) -> Flags:
    """A mask of the pauses between a large copy to the host and the last large copy before the next
    launch, where they are a stall together: the GPU has nothing to do in any of them.

    An optimizer on the CPU works on one tensor after the other: between the copies of 54 gradients
    and 54 weights it took 7.7 ms, none of them longer than 0.3 ms.
    """
    ops = activity.ops
    is_large = (ops.kind == COPY) & ops.pageable & (ops.bytes >= STAGED_BYTES)
    works = (ops.kind == COMPUTE) | (ops.kind == COMMUNICATION)
    begins = _mark_rows(activity, chain, works) | chain.is_first
    copies = _mark_rows(activity, chain, is_large)
    reads = _mark_rows(activity, chain, is_large & (ops.copy_kind == COPY_TO_HOST))
    stretch = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    is_after_read = _count_before(reads) > _count_before(reads)[first][stretch]
    before = _count_before(copies)
    copies_to_come = np.r_[before[first[1:]], copies.sum()][stretch] - before
    inside = is_after_read & (copies_to_come > 0)
    total = np.bincount(stretch, weights=pause * inside, minlength=len(first))
    return np.asarray(inside & (total[stretch] >= stall), np.bool_)


def _mark_rows(activity: Activity, chain: HostChain, chosen: Flags) -> Flags:
    """A mask over chain.rows of the calls that launch one of the chosen operations."""
    launches = np.zeros(len(activity.calls.start) + 1, bool)  # the last cell is of NO_CALL (-1)
    launches[activity.ops.call[chosen]] = True
    return chain.mark_outer(launches)


def _count_before(flags: Flags) -> IntArray:
    return np.cumsum(flags, dtype=np.int64) - flags
