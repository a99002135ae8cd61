"""The dependency graph of all ranks of a run, on one clock.

Nodes are the start and the end of each CUDA call and of each GPU operation, and the last arrival
at each collective. `time[node]` is the largest of `time[source] + lag` over the node's edges, plus
its `delay`, which is what the recording leaves over. Nodes are numbered in recorded order and each
edge points forward in it, so there are no cycles, and a replay of the unchanged graph gives the
recorded times.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.rank.rank_graph import (
    BEFORE,
    NONE,
    Codes,
    GpuOps,
    HostCalls,
    Links,
    RankGraph,
)

Part = TypeVar("Part", HostCalls, GpuOps, Links)


class Edge(IntEnum):
    """Why a node waits for another one."""

    THREAD = 0
    HANDOVER = 1
    CALL = 2
    LAUNCH = 3
    STREAM = 4
    RUN = 5
    EVENT = 6
    ARRIVAL = 7
    RETURN = 8
    STAGED = 9
    QUEUE = 10
    ROOM = 11
    """An operation of another stream that ended right then, where nothing else explains a wait; or
    the one that left room on an engine of the GPU."""


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges sorted by target. `lag` is in ns. `first[n]`: the row of the first edge into node n;
    one entry more than nodes.
    """

    source: IntArray
    target: IntArray
    lag: IntArray
    kind: NDArray[np.int8]
    first: IntArray


@dataclass(frozen=True, eq=False)
class Nodes:
    """The node of each call's and operation's start and end, and of each collective's arrival."""

    call_start: IntArray
    call_end: IntArray
    op_start: IntArray
    op_end: IntArray
    arrival: IntArray


@dataclass(frozen=True, eq=False)
class Columns:
    """The calls and operations of all ranks, with threads, streams, names, places and rows numbered
    over the run. `threads` (globalTid) and `streams` (nsys' numbers) are by their number.
    """

    ranks: tuple[RankGraph, ...]
    calls: HostCalls
    ops: GpuOps
    call_rank: IntArray
    op_rank: IntArray
    names: tuple[str, ...]
    places: tuple[str, ...]
    threads: tuple[int, ...]
    streams: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RunGraph(Columns):
    """`time` and `delay` (ns) are by node. `meets`: the operation is a matched collective or
    message. `work` is the time (ns) that each operation takes without communication beside it;
    beside it compute takes `stretch` times as long. `steps` is the number of steps.
    """

    nodes: Nodes
    edges: Edges
    time: IntArray
    delay: IntArray
    meets: Flags
    work: IntArray
    stretch: NDArray[np.float64]
    steps: int

    @property
    def has_source(self) -> Flags:
        """Whether a node has an edge; nodes without one keep their time."""
        return np.asarray(np.diff(self.edges.first) > 0, np.bool_)

    @property
    def is_engine(self) -> bool:
        """Whether all steps are an engine's iterations."""
        return all(len(graph.kinds) for graph in self.ranks)

    @property
    def live(self) -> Flags:
        """A mask of the operations launched in the window."""
        return np.asarray(self.ops.step != BEFORE, np.bool_)


def join_columns(graphs: Sequence[RankGraph]) -> tuple[Columns, Links]:
    """Number threads, streams, names, places, calls and operations over the run."""
    names, places = dict[str, int](), dict[str, int]()
    calls, ops, links = list[HostCalls](), list[GpuOps](), list[Links]()
    call, op, thread, stream = 0, 0, 0, 0
    for graph in graphs:
        texts = _number_texts(graph.names, names), _number_texts(graph.places, places)
        calls.append(_shift_calls(graph.calls, texts, thread))
        ops.append(_shift_ops(graph.ops, texts, stream, call))
        links.append(_shift_links(graph.links, call, op))
        thread, stream = thread + len(graph.threads), stream + len(graph.streams)
        call, op = call + len(graph.calls.start), op + len(graph.ops.start)
    columns = Columns(
        tuple(graphs),
        _concatenate(HostCalls, calls),
        _concatenate(GpuOps, ops),
        np.repeat(np.arange(len(calls)), [len(calls_of_rank.start) for calls_of_rank in calls]),
        np.repeat(np.arange(len(ops)), [len(ops_of_rank.start) for ops_of_rank in ops]),
        tuple(names),
        tuple(places),
        tuple(chain.from_iterable(graph.threads for graph in graphs)),
        tuple(chain.from_iterable(graph.streams for graph in graphs)),
    )
    return columns, _concatenate(Links, links)


def _number_texts(names: Sequence[str], texts: dict[str, int]) -> Codes:
    return np.array([texts.setdefault(text, len(texts)) for text in names], np.int32)


def _shift_calls(calls: HostCalls, texts: tuple[Codes, Codes], thread: int) -> HostCalls:
    """The calls of a rank with the run's numbers; `texts`: those of its names and places."""
    name, place = texts
    return replace(
        calls, thread=calls.thread + thread, name=name[calls.name], place=place[calls.place]
    )


def _shift_ops(ops: GpuOps, texts: tuple[Codes, Codes], stream: int, call: int) -> GpuOps:
    name, place = texts
    return replace(
        ops,
        name=name[ops.name],
        place=place[ops.place],
        stream=ops.stream + stream,
        call=np.where(ops.call == NONE, NONE, ops.call + call).astype(np.int32),
    )


def _shift_links(links: Links, call: int, op: int) -> Links:
    return Links(
        links.events + np.int32(op),
        links.returns + np.array([op, call], np.int32),
        links.handovers + np.int32(call),
        links.queue + np.array([op, call], np.int32),
        links.reads + np.array([op, call], np.int32),
    )


def _concatenate(kind: type[Part], parts: Sequence[Part]) -> Part:
    columns = (
        np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(kind)
    )
    return kind(*columns)
