"""Join the graphs of all ranks into one."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.activity import SYNC_NAME
from gpu_profile.analysis.activity.comm.lanes import Arrivals, Collectives
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.contention import measure_contention
from gpu_profile.analysis.replay.rank.rank_graph import BEFORE, NONE, Links, RankGraph
from gpu_profile.analysis.replay.run.meetings import Meetings, find_meetings
from gpu_profile.analysis.replay.run.run_graph import (
    Columns,
    Edge,
    Edges,
    Nodes,
    RunGraph,
    join_columns,
)
from gpu_profile.analysis.replay.run.turns import (
    Turns,
    end_tails,
    end_turns,
    find_turns,
    pair_streams,
)

LATENCY_NS, LATENCY_QUANTILE = 1_500, 0.02
"""From the return of a launch to the start of its operation; the least that a recording shows."""
EARLY_NS = 7_000
"""From the begin of a launch to the start of an operation that starts before the launch returns."""
WAIT_COST_NS, LAUNCH_COST_NS = 3_000, 12_000
"""What a call costs besides its wait: one that only waits, and one that launches or copies."""
QUEUE_COST_NS = 6_000
"""From the end of the operation that freed a place in the queue to the return of the launch."""
UNEXPLAINED_NS, ROOM_NS = 20_000, 6_000
"""A GPU takes 1 to 2 us between operations, up to some 20 us over an event. A longer wait is
explained by an operation of another stream that ended at most ROOM_NS before."""

Rows = tuple[IntArray, IntArray, IntArray, Edge]


def join_graphs(
    graphs: Sequence[RankGraph],
    collectives: Sequence[Collectives],
    arrivals: Sequence[Arrivals],
    clock_error_ns: int = 0,
) -> RunGraph:
    """The graph of these ranks, which have the same number of steps."""
    columns, links = join_columns(graphs)
    turns = find_turns(columns)
    columns = end_tails(end_turns(columns, turns))
    meetings = find_meetings(columns, collectives, arrivals, clock_error_ns)
    work, stretch = measure_contention(columns, len(graphs))
    meets = meetings.mark_members(len(columns.ops.start))
    draft = _Draft(columns, links, turns, meetings, meets)
    nodes, edges, time, delay = draft.finish()
    # Only delays that the other edges leave over tell which waits are unexplained: a second pass.
    if draft.add_rooms(nodes, edges, delay):
        nodes, edges, time, delay = draft.finish()
    return RunGraph(
        **vars(columns),
        nodes=nodes,
        edges=edges,
        time=time,
        delay=delay,
        meets=meets,
        work=work,
        stretch=stretch,
        steps=graphs[0].count,
    )


class _Draft:
    """Collects edges between nodes that are numbered by kind: the starts of all calls, their ends,
    the starts of all operations, their ends, arrivals.
    """

    def __init__(
        self, columns: Columns, links: Links, turns: Turns, meetings: Meetings, meets: Flags
    ) -> None:
        self._columns, self._meets = columns, meets
        calls, ops = columns.calls, columns.ops
        count, operations = len(calls.start), len(ops.start)
        self._call, self._op = np.arange(count), np.arange(operations)
        self._base = np.cumsum([0, count, count, operations, operations])
        self._arrival_time = meetings.last
        parts = (calls.start, calls.end, ops.start, ops.end, self._arrival_time)
        self._time = np.concatenate(parts)
        self._rows = list[Rows]()
        self._add_host()
        self._add_launches()
        self._add_streams()
        self._add_turns(turns)
        self._add_links(links)
        self._add_collectives(meetings)
        self._add_messages(meetings.pairs)

    def _add(self, kind: Edge, source: IntArray, target: IntArray, lag: IntArray | int = 0) -> None:
        self._rows.append((source, target, np.broadcast_to(lag, source.shape), kind))

    def _starts(self, calls: IntArray) -> IntArray:
        return np.asarray(calls + self._base[0], np.int64)

    def _returns(self, calls: IntArray) -> IntArray:
        return np.asarray(calls + self._base[1], np.int64)

    def _op_starts(self, ops: IntArray) -> IntArray:
        return np.asarray(ops + self._base[2], np.int64)

    def _op_ends(self, ops: IntArray) -> IntArray:
        return np.asarray(ops + self._base[3], np.int64)

    def _add_host(self) -> None:
        """Calls of a thread in order, and each call's own time."""
        calls, row = self._columns.calls, self._call
        same = np.flatnonzero(calls.thread[1:] == calls.thread[:-1])
        self._add(Edge.THREAD, self._returns(same), self._starts(same + 1))
        self._add(Edge.CALL, self._starts(row), self._returns(row), _find_own_cost(self._columns))

    def _add_launches(self) -> None:
        calls, ops = self._columns.calls, self._columns.ops
        rows = np.flatnonzero(ops.call != NONE)
        call = ops.call[rows].astype(np.int64)
        after = ops.start[rows] >= calls.end[call]
        late = (ops.start[rows] - calls.end[call])[after]
        least = int(np.quantile(late, LATENCY_QUANTILE)) if len(late) else 0
        lag = min(LATENCY_NS, least)
        later, early = rows[after], rows[~after]
        self._add(Edge.LAUNCH, self._returns(call[after]), self._op_starts(later), lag)
        self._add(Edge.LAUNCH, self._starts(call[~after]), self._op_starts(early), EARLY_NS)

    def _add_streams(self) -> None:
        """From the end of the operation before; from its start where both overlap."""
        ops, (before, later) = self._columns.ops, pair_streams(self._columns)
        apart = ops.end[before] <= ops.start[later]
        self._add(Edge.STREAM, self._op_ends(before[apart]), self._op_starts(later[apart]))
        before, later = before[~apart], later[~apart]
        lag = np.maximum(ops.start[later] - ops.start[before], 0)
        self._add(Edge.STREAM, self._op_starts(before), self._op_starts(later), lag)

    def _add_turns(self, turns: Turns) -> None:
        """From the last operation of a stream's turn on an engine to the first of the next turn.

        Without it, operations that a wait kept apart would overlap when the wait is gone, each as
        fast as alone. Operations that overlap in the recording have no such edge.
        """
        self._add(Edge.ROOM, self._op_ends(turns.last_ops), self._op_starts(turns.next_ops))

    def _add_links(self, links: Links) -> None:
        calls, ops = self._columns.calls, self._columns.ops
        source, target = links.events.T.astype(np.int64)
        self._add(Edge.EVENT, self._op_ends(source), self._op_starts(target))
        source, target = links.handovers.T.astype(np.int64)
        self._add(Edge.HANDOVER, self._returns(source), self._starts(target))
        source, target = links.returns.T.astype(np.int64)
        ended = ops.end[source] <= calls.end[target]
        self._add(Edge.RETURN, self._op_ends(source[ended]), self._returns(target[ended]))
        source, target = source[~ended], target[~ended]
        lag = calls.end[target] - ops.start[source]
        self._add(Edge.STAGED, self._op_starts(source), self._returns(target), lag)
        source, target = links.reads.T.astype(np.int64)
        self._add(Edge.RETURN, self._op_ends(source), self._starts(target))
        source, target = links.queue.T.astype(np.int64)
        self._add(Edge.QUEUE, self._op_ends(source), self._returns(target), QUEUE_COST_NS)

    def _add_collectives(self, meetings: Meetings) -> None:
        """A member ends after the last arrival; a root that ends before it, after its own start.

        The root of a broadcast has sent its data before the others come.
        """
        ops, members, group = self._columns.ops, meetings.ops, meetings.group
        arrival = group + self._base[4]
        self._add(Edge.ARRIVAL, self._op_starts(members), arrival)
        stays = ops.end[members] > self._arrival_time[group]
        self._add(Edge.ARRIVAL, arrival[stays], self._op_ends(members[stays]))
        early = members[~stays]
        self._add(Edge.ARRIVAL, self._op_starts(early), self._op_ends(early))
        unmatched = np.flatnonzero(~self._meets)
        lag = (ops.end - ops.start)[unmatched]
        self._add(Edge.RUN, self._op_starts(unmatched), self._op_ends(unmatched), lag)

    def _add_messages(self, pairs: IntArray) -> None:
        ops = self._columns.ops
        for ends, other in (pairs.T, pairs.T[::-1]):
            early = ops.start[ends] < ops.end[other]
            self._add(Edge.ARRIVAL, self._op_starts(ends[early]), self._op_ends(other[early]))
        members = np.unique(pairs)
        self._add(Edge.ARRIVAL, self._op_starts(members), self._op_ends(members))

    def add_rooms(self, nodes: Nodes, edges: Edges, delay: IntArray) -> bool:
        """Edges to operations whose wait nothing explains; whether there are any."""
        columns, ops, rows = self._columns, self._columns.ops, len(self._rows)
        late = delay[nodes.op_start] > UNEXPLAINED_NS
        late &= np.diff(edges.first)[nodes.op_start] > 0
        for rank in np.unique(columns.op_rank[late]).tolist():
            of_rank = np.flatnonzero(columns.op_rank == rank)
            waits = np.flatnonzero(late & (columns.op_rank == rank))
            by_end = of_rank[np.argsort(ops.end[of_rank], kind="stable")]
            place = np.searchsorted(ops.end[by_end], ops.start[waits], "right") - 1
            before = by_end[np.maximum(place, 0)]
            fits = (place >= 0) & (ops.start[waits] - ops.end[before] < ROOM_NS)
            fits &= ops.stream[before] != ops.stream[waits]
            self._add(Edge.ROOM, self._op_ends(before[fits]), self._op_starts(waits[fits]))
        return any(len(source) for source, *_ in self._rows[rows:])

    def finish(self) -> tuple[Nodes, Edges, IntArray, IntArray]:
        """Number the nodes in recorded order, and give each the delay that its edges leave over."""
        # at one time: ends of operations, of calls that wait for them, starts, arrivals
        kinds = np.repeat([2, 1, 2, 0, 3], np.diff([*self._base, len(self._time)]))
        order = np.lexsort((kinds, self._time))
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        time = self._time[order]
        source = number[np.concatenate([rows[0] for rows in self._rows])]
        target = number[np.concatenate([rows[1] for rows in self._rows])]
        lag = np.concatenate([rows[2] for rows in self._rows])
        kind = np.repeat([rows[3] for rows in self._rows], [len(rows[0]) for rows in self._rows])
        # What was launched before the window keeps its recorded time in every replay.
        fixed = np.zeros(len(order), bool)
        before = self._op[self._columns.ops.step == BEFORE]
        fixed[number[self._op_starts(before)]] = fixed[number[self._op_ends(before)]] = True
        # An edge that the recorded times contradict would point backward, and make a cycle.
        keep = np.flatnonzero((source < target) & ~fixed[target])
        keep = keep[np.argsort(target[keep], kind="stable")]
        source, target = source[keep], target[keep]
        # No longer than recorded, or a node without delay would be later than it was.
        lag = np.minimum(lag[keep], time[target] - time[source])
        first = np.searchsorted(target, np.arange(len(order) + 1))
        edges = Edges(source, target, lag, kind[keep].astype(np.int8), first)
        latest = np.full(len(order), np.iinfo(np.int64).min)
        np.maximum.at(latest, target, time[source] + lag)
        delay = np.where(np.diff(first) > 0, time - latest, time)
        parts = np.split(number, self._base[1:])
        return Nodes(*parts), edges, time, delay


def _find_own_cost(columns: Columns) -> IntArray:
    """The time (ns) that each call takes without waiting for the GPU."""
    calls = columns.calls
    duration = calls.end - calls.start
    typical = np.zeros(len(columns.names), np.int64)
    only_waits = np.zeros(len(columns.names), bool)
    for name in np.unique(calls.name).tolist():
        typical[name] = int(np.median(duration[calls.name == name]))
        only_waits[name] = bool(SYNC_NAME.match(columns.names[name]))
    typical = np.minimum(typical, LAUNCH_COST_NS)
    cost = np.where(only_waits, WAIT_COST_NS, typical)[calls.name]
    return np.where(calls.waits, np.minimum(duration, cost), duration)
