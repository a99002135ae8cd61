"""Replay a graph with given weights: the time of each node.

Without communication beside compute that is one longest path. Communication makes the time of a
kernel depend on when it runs, so then the nodes are replayed in order of time, from a heap. In both
cases numpy first contracts the nodes with one edge, which only shift a time; Python walks the
others.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights

PLAIN, BEGINS, ENDS, COMMUNICATES, SILENT = range(5)
"""Roles of nodes: the start and the end of compute that communication can slow, the start and the
end of communication."""


@dataclass(frozen=True, eq=False)
class _Contracted:
    """Edges between the nodes that are left. A contracted node is at `root` + `offset`."""

    source: IntArray
    target: IntArray
    lag: IntArray
    root: IntArray
    offset: IntArray
    is_left: Flags

    def expand(self, time: IntArray) -> IntArray:
        """The times of all nodes, given those of the ones that are left."""
        return np.where(self.is_left, time, time[self.root] + self.offset)


def simulate(graph: RunGraph, weights: Weights) -> IntArray:
    """The time of each node in ns, on the run's clock.

    Exact: with unchanged weights the recorded times, to 1 ns for each kernel that communication
    slows.
    """
    roles = _find_roles(graph)
    edges, delay = graph.edges, weights.delay
    lag = _set_durations(graph, weights)
    live = ~weights.is_gone
    slowed = roles[edges.target] == ENDS
    # Their ends are events: when one comes depends on the communication that meets it.
    live &= ~(slowed & (edges.kind == Edge.RUN))
    rows = np.flatnonzero(live)
    contracted = _contract(edges.source[rows], edges.target[rows], lag[rows], delay, roles == PLAIN)
    if (roles == PLAIN).all():
        return contracted.expand(_walk(contracted, delay))
    return contracted.expand(_Events(graph, weights, roles, contracted).run())


def _find_roles(graph: RunGraph) -> IntArray:
    """The role of each node; all PLAIN where no communication slows compute."""
    roles = np.full(len(graph.time), PLAIN)
    slowed = (graph.ops.kind == COMPUTE) & (graph.stretch != 1.0) & graph.live
    if not slowed.any():
        return roles
    communication = graph.ops.kind == COMMUNICATION
    roles[graph.nodes.op_start[slowed]], roles[graph.nodes.op_end[slowed]] = BEGINS, ENDS
    roles[graph.nodes.op_start[communication]] = COMMUNICATES
    roles[graph.nodes.op_end[communication]] = SILENT
    return roles


def _set_durations(graph: RunGraph, weights: Weights) -> IntArray:
    """The lags, with the work of operations on the edges from their start to their end."""
    edges = graph.edges
    rows = np.flatnonzero(edges.kind == Edge.RUN)
    op_of = np.full(len(graph.time), -1)
    op_of[graph.nodes.op_end] = np.arange(len(graph.nodes.op_end))
    op = op_of[edges.target[rows]]
    rows, op = rows[graph.work[op] != weights.work[op]], op[graph.work[op] != weights.work[op]]
    lag = weights.lag.copy()
    lag[rows] = weights.work[op]
    return lag


def _contract(
    source: IntArray, target: IntArray, lag: IntArray, delay: IntArray, plain: Flags
) -> _Contracted:
    """Leave out plain nodes with one edge, which are a shift of that edge's source."""
    size = len(delay)
    removable = (np.bincount(target, minlength=size) == 1) & plain
    root, offset = np.arange(size), np.zeros(size, np.int64)
    shifts = removable[target]
    root[target[shifts]] = source[shifts]
    offset[target[shifts]] = lag[shifts] + delay[target[shifts]]
    while True:
        above = root[root]
        if np.array_equal(above, root):
            break
        offset += offset[root]
        root = above
    kept = ~shifts
    return _Contracted(
        root[source[kept]], target[kept], lag[kept] + offset[source[kept]], root, offset, ~removable
    )


def _walk(graph: _Contracted, delay: IntArray) -> IntArray:
    """The longest path to each node that is left; edges are sorted by target."""
    time: list[int] = delay.tolist()
    targets, first = np.unique(graph.target, return_index=True)
    last: list[int] = np.r_[first, len(graph.target)][1:].tolist()
    source, lag = graph.source.tolist(), graph.lag.tolist()
    edge = 0
    for node, stop in zip(targets.tolist(), last, strict=True):
        latest = time[source[edge]] + lag[edge]
        for other in range(edge + 1, stop):
            arrival = time[source[other]] + lag[other]
            if arrival > latest:
                latest = arrival
        time[node] += latest
        edge = stop
    return np.array(time, np.int64)


class _Events:
    """Replays nodes in order of time; compute runs 1/stretch as fast beside communication."""

    def __init__(
        self, graph: RunGraph, weights: Weights, roles: IntArray, contracted: _Contracted
    ) -> None:
        size = len(graph.time)
        order = np.argsort(contracted.source, kind="stable")
        self._first = np.searchsorted(contracted.source[order], np.arange(size + 1)).tolist()
        self._target: list[int] = contracted.target[order].tolist()
        self._lag: list[int] = contracted.lag[order].tolist()
        degree = np.bincount(contracted.target, minlength=size)
        self._left: list[int] = degree.tolist()
        self._delay: list[int] = weights.delay.tolist()
        self._role: list[int] = roles.tolist()
        self._time: list[int] = [-1] * size
        self._latest: list[int] = [np.iinfo(np.int64).min] * size
        roots = np.flatnonzero(contracted.is_left & (degree == 0) & (roles != ENDS))
        self._heap = list(zip(weights.delay[roots].tolist(), roots.tolist(), strict=True))
        heapify(self._heap)
        self._gpus = _Gpus(graph, weights)

    def run(self) -> IntArray:
        """The time of each node that is left.

        Nearly all nodes are starts and ends of compute: a call of a function for each of them would
        take half as much time again.
        """
        heap, time, roles, gpus = self._heap, self._time, self._role, self._gpus
        first, target, lag = self._first, self._target, self._lag
        left, latest, delay = self._left, self._latest, self._delay
        rank, mate, work, beside = gpus.rank, gpus.mate, gpus.work, gpus.beside
        running, busy, ends = gpus.running, gpus.communicating, gpus.ends
        while heap:
            now, node = heappop(heap)
            role = roles[node]
            if role == BEGINS:
                end, gpu = mate[node], rank[node]
                running[gpu][end] = now
                ends[end] = now + (beside if busy[gpu] else work)[end]
                heappush(heap, (ends[end], end))
            elif role == ENDS:
                if ends[node] != now or time[node] >= 0:
                    continue  # its speed has changed since
                del running[rank[node]][node]
            elif role != PLAIN:
                for event in gpus.change_speed(role, rank[node], now):
                    heappush(heap, event)
            time[node] = now
            for edge in range(first[node], first[node + 1]):
                other = target[edge]
                arrival = now + lag[edge]
                if arrival > latest[other]:
                    latest[other] = arrival
                left[other] -= 1
                if not left[other] and roles[other] != ENDS:
                    heappush(heap, (latest[other] + delay[other], other))
        return np.array(time, np.int64)


class _Gpus:
    """What runs on each GPU: compute that communication slows, and communication.

    By the node of a kernel's end: `work` and `beside` are its ns without and with communication all
    the time, `ends` is when it ends if nothing changes. `running`, by rank: since when it runs.
    """

    def __init__(self, graph: RunGraph, weights: Weights) -> None:
        size, starts, ends = len(graph.time), graph.nodes.op_start, graph.nodes.op_end
        rank = graph.op_rank
        self.mate = _scatter(size, starts, ends)
        self.rank = _scatter(size, np.r_[starts, ends], np.r_[rank, rank])
        self.work = _scatter(size, ends, weights.work)
        self.beside = _scatter(size, ends, (weights.work * graph.stretch + 0.5).astype(np.int64))
        self.communicating = [0] * len(graph.ranks)
        self.running: list[dict[int, int]] = [{} for _ in graph.ranks]
        self.ends: dict[int, int] = {}
        stretch = np.ones(size)
        stretch[ends] = graph.stretch
        self._stretch: list[float] = stretch.tolist()
        self._left: dict[int, float] = {}
        """Work that kernels had left when their speed changed last."""

    def change_speed(self, role: int, rank: int, now: int) -> list[tuple[int, int]]:
        """The ends (time, node) that follow from communication that starts or ends now."""
        before = self.communicating[rank]
        after = self.communicating[rank] = before + (1 if role == COMMUNICATES else -1)
        if before and after:
            return []
        return [(self._move_end(rank, end, now), end) for end in self.running[rank]]

    def _move_end(self, rank: int, end: int, now: int) -> int:
        stretch = self._stretch[end]
        was, speed = (1.0, stretch) if self.communicating[rank] else (stretch, 1.0)
        work = self._left.get(end, self.work[end])
        left = max(0.0, work - (now - self.running[rank][end]) / was)
        self._left[end], self.running[rank][end] = left, now
        self.ends[end] = now + int(left * speed + 0.5)
        return self.ends[end]


def _scatter(size: int, nodes: IntArray, values: IntArray) -> list[int]:
    table = np.full(size, -1)
    table[nodes] = values
    result: list[int] = table.tolist()
    return result
