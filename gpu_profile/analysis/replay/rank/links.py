"""The dependencies of a rank's window that no order of a thread or stream implies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COPY, NO_CALL, Activity
from gpu_profile.analysis.activity.idle.handed_reads import find_handed_reads
from gpu_profile.analysis.arrays.types import Flags, IntArray, Places
from gpu_profile.analysis.replay.rank.host_chain import HostChain
from gpu_profile.analysis.replay.rank.launch_queue import find_queue_waits
from gpu_profile.analysis.replay.rank.markers import StreamOrder, follow_markers
from gpu_profile.analysis.replay.rank.rank_graph import Links, make_pairs
from gpu_profile.analysis.replay.rank.window import Window
from gpu_profile.analysis.store.database import Database

STAGED_CALL_NS = 20_000
"""A copy from pageable memory returns when it is staged, which is before its end on the GPU. Such
a call takes at least so long; a shorter one has put the copy in the queue."""


@dataclass(frozen=True, eq=False)
class RawLinks:
    """Links in rows of the activity. `waiting_calls` are the calls that waited. `contradictions`
    counts recorded events that the times contradict.
    """

    links: Links
    waiting_calls: IntArray
    contradictions: int

    @property
    def linked_calls(self) -> IntArray:
        """The calls at either end of a link."""
        links = self.links
        of_calls = (links.returns[:, 1], links.queue[:, 1], links.reads[:, 1])
        ends = (*of_calls, links.handovers.ravel())
        return np.unique(np.concatenate(ends)).astype(np.int64)


def find_links(
    activity: Activity, database: Database, window: Window, rows: IntArray, chain: HostChain
) -> RawLinks:
    """The links among the operations `rows` and the calls of the chain."""
    # From the step before on: its recorded events are awaited in the window.
    recent = activity.find_launched(window.lead, window.end)
    order = StreamOrder(activity, np.union1d(recent, rows))
    dependencies = follow_markers(activity, database, order, window.lead, window.end)
    events = _make_array(dependencies.events)
    holds = activity.ops.end[events[:, 0]] <= activity.ops.start[events[:, 1]]
    waits = np.concatenate((_make_array(dependencies.returns), _find_copies(activity, rows)))
    returns = _of_outer(waits, chain)
    end, returned = activity.ops.end[returns[:, 0]], activity.calls.end[returns[:, 1]]
    staged = _is_staged(activity, returns)
    returns, end = returns[(end <= returned) | staged], end[(end <= returned) | staged]
    waited = end > activity.calls.start[returns[:, 1]]
    queue, full = find_queue_waits(activity, order)
    reads = find_handed_reads(activity)
    waited_reads = reads.pick_waited()
    begins = make_pairs(waited_reads.op, waited_reads.begin)
    links = Links(events[holds], returns, chain.handovers, _of_outer(queue, chain), begins)
    held = np.concatenate((returns[waited, 1], chain.find_outer(full), reads.copy, begins[:, 1]))
    return RawLinks(links, np.unique(held).astype(np.int64), int(np.count_nonzero(~holds)))


def _make_array(pairs: Sequence[tuple[int, int]]) -> Places:
    return np.asarray(np.array(pairs, np.int32).reshape(-1, 2), np.int32)


def _of_outer(links: Places, chain: HostChain) -> Places:
    """The links with the call that holds the target; nested calls are no calls of the graph."""
    return make_pairs(links[:, 0].astype(np.int64), chain.find_outer(links[:, 1].astype(np.int64)))


def _find_copies(activity: Activity, rows: IntArray) -> Places:
    """Copies that end in their call or are staged by it, with the call."""
    ops = activity.ops
    copies = rows[(ops.kind[rows] == COPY) & (ops.call[rows] != NO_CALL)]
    links = make_pairs(copies, ops.call[copies])
    ends_inside = ops.end[copies] <= activity.calls.end[ops.call[copies]]
    chosen = ends_inside | _is_staged(activity, links)
    return make_pairs(copies[chosen], ops.call[copies[chosen]])


def _is_staged(activity: Activity, links: Places) -> Flags:
    """Whether the call returned when its copy from pageable memory had begun, not ended."""
    ops, calls = activity.ops, activity.calls
    op, call = links[:, 0], links[:, 1]
    runs_on = (ops.end[op] > calls.end[call]) & (ops.start[op] < calls.end[call])
    slow = calls.end[call] - calls.start[call] > STAGED_CALL_NS
    return np.asarray(ops.pageable[op] & runs_on & slow & (ops.kind[op] == COPY), np.bool_)
