"""Calls that block a thread that launches work: synchronisations and blocking transfers."""

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
    SYNC_NAME,
    Activity,
)
from gpu_profile.analysis.activity.idle.handed_reads import find_handed_reads
from gpu_profile.analysis.arrays.columns import is_among
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray

STAGED_BYTES = 64 * 1024
"""A smaller transfer, such as that of .item(), waits for the GPU longer than it copies."""
COPY_NAME = re.compile(r"(?!.*Async)(cudaMemcpy|cuMemcpy|cudaMemset(_|$))")
"""Calls that block by their name. An Async one blocks as well where the memory is pageable:
https://docs.nvidia.com/cuda/cuda-runtime-api/api-sync-behavior.html"""


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
def blocking_calls(activity: Activity) -> Blocking:
    """Synchronisations and blocking transfers on the threads that launch work, sorted by end."""
    calls = activity.calls
    copies, reads = _mark_blocking_copies(activity), find_handed_reads(activity).pick_waited()
    sync = calls.match_names(activity.names, SYNC_NAME)
    sync[reads.copy] = True
    rows = np.flatnonzero(sync | copies)
    rows = rows[is_among(calls.thread[rows], activity.launching)]
    start, end = calls.start[rows], calls.end[rows]
    is_read = np.searchsorted(rows, reads.copy)
    start[is_read], end[is_read] = reads.since, activity.ops.end[reads.op]
    order = np.argsort(end, kind="stable")
    rows, start, end = rows[order], start[order], end[order]
    lead = end - start - _measure_exposed(activity, start, end)
    moves = (copies & ~sync & ~_asks_for_values(activity))[rows]
    first = _find_chain_starts(activity, start, end)
    together, moving = (_sum_from(first, part) for part in (lead, lead * moves))
    return Blocking(start, end, moves, rows, together, 2 * moving > together)


def _measure_exposed(activity: Activity, start: IntArray, end: IntArray) -> IntArray:
    """The time in each window in which communication ran and no compute."""
    both, compute = (
        activity.ops.measure_covered(kinds, start, end)
        for kinds in ((COMPUTE, COMMUNICATION), (COMPUTE,))
    )
    return both - compute


def _find_chain_starts(activity: Activity, start: IntArray, end: IntArray) -> IntArray:
    """For each call, the index of the first call since the last launch."""
    launched = _list_launches(activity)
    before = np.searchsorted(launched, end[:-1], side="right")
    is_first = np.r_[True, np.searchsorted(launched, start[1:], side="right") > before]
    return np.maximum.accumulate(np.where(is_first[: len(start)], np.arange(len(start)), 0))


def _list_launches(activity: Activity) -> IntArray:
    """When something was launched, ascending; of operations without a call their own starts."""
    lost = activity.ops.start[activity.ops.call == NO_CALL]
    launched = activity.calls.start[activity.launches_op]
    return np.sort(np.r_[launched, lost], kind="stable") if len(lost) else launched


def _sum_from(first: IntArray, value: IntArray) -> IntArray:
    """For each index i the sum of value[first[i]] to value[i]."""
    sums = np.r_[0, np.cumsum(value)]
    return np.asarray(sums[1:] - sums[first], np.int64)


def _mark_blocking_copies(activity: Activity) -> NDArray[np.bool_]:
    """A mask of the calls that copy and block, by their name or because of pageable memory."""
    calls = activity.calls
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
