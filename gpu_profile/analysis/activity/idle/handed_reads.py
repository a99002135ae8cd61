"""Values that XLA reads: a thread that only copies brings them to the host for the one that asks.

Neither makes a call that blocks. The thread that asks queues a host function, which the GPU calls
when the value is there; then the other thread copies, and the first one goes on.
"""

import re
from dataclasses import dataclass, fields

import numpy as np

from gpu_profile.analysis.activity.activity import COPY, COPY_TO_HOST, NO_CALL, Activity
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray

HOST_FUNCTION_NAME = re.compile(r"(cuda|cu)LaunchHostFunc")
WAKE_NS = 1_000_000
"""A thread that is told of the GPU's end goes on within 0.1 to 0.6 ms (H200's host, JAX 0.11)."""
NO_OP = -1


@dataclass(frozen=True, eq=False)
class HandedReads:
    """Arrays by read: the call that queued the host function (`request`), the first call of the
    thread that copies (`begin`) and the one that copies (`copy`), rows of Calls; `since`, when
    the thread that asks waits (ns); `op`, the operation that the GPU had to end, or NO_OP.
    """

    request: IntArray
    begin: IntArray
    copy: IntArray
    since: IntArray
    op: IntArray

    def pick_waited(self) -> "HandedReads":
        """The reads for which the GPU had to end something."""
        rows = np.flatnonzero(self.op != NO_OP)
        return HandedReads(*(getattr(self, column.name)[rows] for column in fields(self)))


@once_each
def find_handed_reads(activity: Activity) -> HandedReads:
    """The reads of a process, in the order of their calls."""
    calls, copying = activity.calls, _list_copying_threads(activity)
    if not copying:
        return HandedReads(*[np.empty(0, np.int64)] * 5)
    rows = np.flatnonzero(is_among(calls.thread, activity.launching))
    is_copying = is_among(calls.thread[rows], copying)
    first = np.flatnonzero(is_copying[1:] & ~is_copying[:-1]) + 1
    first = first[calls.match_names(activity.names, HOST_FUNCTION_NAME)[rows[first - 1]]]
    stop = np.r_[np.flatnonzero(~is_copying), len(rows)]
    stop = stop[np.searchsorted(stop, first)]
    copies = np.r_[_find_copies(activity, rows), len(rows)]
    copies = copies[np.searchsorted(copies, first)]
    first, copies = first[copies < stop], copies[copies < stop]
    request, begin = rows[first - 1], rows[first]
    op = _find_awaited(activity, request, begin)
    return HandedReads(request, begin, rows[copies], calls.end[request], op)


def _list_copying_threads(activity: Activity) -> list[int]:
    """The threads that launch copies alone, beside others that launch kernels."""
    if len(activity.launching) < 2:
        return []
    ops = activity.ops
    works = ops.call[(ops.kind != COPY) & (ops.call != NO_CALL)]
    working = list_distinct(activity.calls.thread[works])
    return [number for number in activity.launching if number not in working]


def _find_copies(activity: Activity, rows: IntArray) -> IntArray:
    """The places in `rows` of the calls that copy to the host."""
    ops = activity.ops
    copies = np.zeros(len(activity.calls.start) + 1, bool)
    copies[ops.call[(ops.kind == COPY) & (ops.copy_kind == COPY_TO_HOST)]] = True
    return np.flatnonzero(copies[rows])  # NO_CALL (-1) has written the extra last cell


def _find_awaited(activity: Activity, request: IntArray, begin: IntArray) -> IntArray:
    """The last operation launched before each host function (`request`) that ended between it and
    the call that it lets go on (`begin`); NO_OP where there was nothing to wait for.
    """
    ops, calls = activity.ops, activity.calls
    order = np.argsort(activity.launch_starts[:], kind="stable")
    ended = ops.end[order]
    is_last = ended == np.maximum.accumulate(ended)
    last = np.maximum.accumulate(np.where(is_last, np.arange(len(order)), 0))
    place = np.searchsorted(activity.launch_starts[order], calls.start[request]) - 1
    op = order[last[np.maximum(place, 0)]]
    end, goes_on = ops.end[op], calls.start[begin]
    waited = (place >= 0) & (end > calls.end[request]) & (end <= goes_on)
    return np.where(waited & (goes_on - end <= WAKE_NS), op, NO_OP)
