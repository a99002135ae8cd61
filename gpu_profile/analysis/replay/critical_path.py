"""The chain of dependencies that the steps' time consists of: what would have to be faster."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.step_times import SETTLING
from gpu_profile.analysis.replay.weights import Weights
from gpu_profile.analysis.store.schema import tid_of

HOST, PAUSE, CALL, BLOCKED, QUEUE, LAUNCH, GAP, WAIT, KERNEL, COPY, TRANSFER = (
    *("host work", "host pause", "CUDA call", "blocking call", "launch queue", "launch latency"),
    *("gap on the stream", "wait for a stream", "kernel", "copy", "communication"),
)
PARTS = (HOST, PAUSE, CALL, BLOCKED, QUEUE, LAUNCH, GAP, WAIT, KERNEL, COPY, TRANSFER)


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The nodes on the path, the last one first, when each is reached (`end`, ns on the run's
    clock), and the time (ns) since the one before it.

    `edge` is the row of the edge over which the path comes to the node. `steps`: how many steps
    the path covers.
    """

    node: IntArray
    edge: IntArray
    end: IntArray
    length: IntArray
    steps: int


class Stretch(NamedTuple):
    """A stretch of the path, in ns on the run's clock; `rank` to `place` are as of PathPart."""

    rank: int
    lane: str
    part: str
    place: str
    start: int
    end: int


@dataclass(frozen=True)
class PathPart:
    """`ms` in each step of one kind (of PARTS), on a thread or stream ("thread 1234", "stream 7"),
    in one module or NVTX range ("" outside of all).
    """

    rank: int
    lane: str
    part: str
    place: str
    ms: float


def find_critical_path(
    graph: RunGraph, time: IntArray, weights: Weights | None = None
) -> CriticalPath:
    """The path through the steps that measure_steps() counts, given the times and the weights of a
    replay; of the recording without weights.
    """
    best = _find_binding_edges(graph, time, weights or Weights.of(graph))
    live = np.flatnonzero(graph.live)
    ends, step = graph.nodes.op_end[live], graph.ops.step[live]
    first = (graph.steps - 1) // SETTLING
    node = int(ends[np.argmax(time[ends])])
    begin = int(time[ends[step <= first]].max())
    nodes, edges = list[int](), list[int]()
    sources = graph.edges.source
    while time[node] > begin and best[node] >= 0:
        nodes.append(node)
        edges.append(int(best[node]))
        node = int(sources[best[node]])
    path = np.array(nodes, np.int64)
    rows = np.array(edges, np.int64)
    length = time[path] - np.maximum(time[sources[rows]], begin)
    return CriticalPath(path, rows, time[path], length, graph.steps - 1 - first)


def _find_binding_edges(graph: RunGraph, time: IntArray, weights: Weights) -> IntArray:
    """For each node the edge that was fulfilled last; -1 for a node without edges."""
    edges = graph.edges
    # A kernel's end follows from its start alone. Communication beside it may have made it later
    # than the lag of that edge says.
    reached = np.where(edges.kind == Edge.RUN, time[edges.target], time[edges.source] + weights.lag)
    reached[weights.is_gone] = np.iinfo(np.int64).min
    # of several edges that are fulfilled at the same time, the first one
    order = np.lexsort((-np.arange(len(reached)), reached, edges.target))
    best = np.full(len(time), -1)
    best[edges.target[order]] = order
    return best


def sum_path(graph: RunGraph, path: CriticalPath) -> list[PathPart]:
    """The path's parts, the longest first."""
    sums: dict[tuple[int, str, str, str], int] = {}
    for stretch in list_stretches(graph, path):
        key = (stretch.rank, stretch.lane, stretch.part, stretch.place)
        sums[key] = sums.get(key, 0) + stretch.end - stretch.start
    ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    return [PathPart(*key, total / path.steps / 1e6) for key, total in ordered if total]


def list_stretches(graph: RunGraph, path: CriticalPath) -> Iterator[Stretch]:
    """The stretches of the path, the last one first; some have no length."""
    kind, row = _find_rows(graph)
    edge_kind = graph.edges.kind[path.edge]
    times = path.length.tolist(), path.end.tolist()
    for node, edge, length, end in zip(path.node.tolist(), edge_kind.tolist(), *times, strict=True):
        what, index = int(kind[node]), int(row[node])
        if what >= 4:
            continue  # an arrival has the time of the operation that arrives
        if what >= 2:
            part = _name_op_part(graph, index, edge) if what == 3 else _name_wait(edge)
            lane = f"stream {graph.streams[graph.ops.stream[index]]}"
            rank, place = graph.op_rank[index], graph.ops.place[index]
            yield Stretch(
                graph.ranks[rank].rank, lane, part, graph.places[place], end - length, end
            )
            continue
        lane = f"thread {int(tid_of(np.array(graph.threads[graph.calls.thread[index]])))}"
        rank = graph.ranks[graph.call_rank[index]].rank
        place_text = graph.places[graph.calls.place[index]]
        if what == 1:
            yield Stretch(rank, lane, _name_return(edge), place_text, end - length, end)
            continue
        paused = end - length + min(int(graph.calls.silent[index]), length)
        yield Stretch(rank, lane, HOST, place_text, paused, end)
        yield Stretch(rank, lane, PAUSE, place_text, end - length, paused)


def _find_rows(graph: RunGraph) -> tuple[NDArray[np.int8], IntArray]:
    """For each node its kind (0: start of a call, 1: its end, 2: start of an operation, 3: its end,
    4: arrival) and its row.
    """
    kind, row = np.full(len(graph.time), 4, np.int8), np.full(len(graph.time), -1)
    nodes = graph.nodes
    for number, node in enumerate((nodes.call_start, nodes.call_end, nodes.op_start, nodes.op_end)):
        kind[node], row[node] = number, np.arange(len(node))
    return kind, row


def _name_return(edge: int) -> str:
    if edge in (Edge.RETURN, Edge.STAGED):
        return BLOCKED
    return QUEUE if edge == Edge.QUEUE else CALL


def _name_wait(edge: int) -> str:
    if edge == Edge.LAUNCH:
        return LAUNCH
    return GAP if edge == Edge.STREAM else WAIT


def _name_op_part(graph: RunGraph, op: int, edge: int) -> str:
    kind = graph.ops.kind[op]
    if kind == COMMUNICATION:
        return TRANSFER
    return KERNEL if kind == COMPUTE else COPY
