"""The part of one rank's recording that the replay needs: a window of steps; picklable, <= 3 MB."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import Flags, IntArray, Places

NONE = -1
BEFORE = -1
"""The step of what was launched before the window, and ran in it."""

Codes = NDArray[np.int32]
Table = TypeVar("Table", "HostCalls", "GpuOps")


@dataclass(frozen=True, eq=False)
class HostCalls:
    """CUDA calls of the threads that launch work, sorted by thread and start, in arrays of one
    length.

    Times are in ns on the run's clock. Calls that neither launch, wait, allocate, nor instantiate a
    graph are left out: they are part of the pause before the next call. `thread` counts from 0.
    `name` indexes RankGraph.names. `silent` is the time (ns) of long pauses (sum_silences) in the
    host's time before the call. `waits`: the call waited for the GPU. `place` indexes
    RankGraph.places: where the program was before the call.
    """

    start: IntArray
    end: IntArray
    silent: IntArray
    thread: Codes
    name: Codes
    step: Codes
    place: Codes
    waits: Flags


@dataclass(frozen=True, eq=False)
class GpuOps:
    """GPU operations sorted by start, in arrays of one length.

    `call` is a row of HostCalls, or NONE. `stream` counts from 0. `name` indexes RankGraph.names.
    `grid` is a number of the kernel's launch configuration, `blocks` how many it has, and `threads`
    how many each block has; they are 0 where unknown. `comm` is the row among the rank's
    communication kernels, or NONE. `step` is BEFORE for what was launched before the window.
    """

    start: IntArray
    end: IntArray
    bytes: IntArray
    grid: IntArray
    blocks: IntArray
    threads: IntArray
    call: Places
    comm: Places
    kind: NDArray[np.int8]
    stream: Codes
    name: Codes
    step: Codes
    place: Codes
    pageable: Flags


@dataclass(frozen=True, eq=False)
class Links:
    """Dependencies that no order of one thread or stream implies; each is (source, target) rows.

    `events`: an operation waits for one of another stream (a recorded event). `returns`: a call
    returns when an operation has ended. `handovers`: a thread goes on when a call of another
    thread has ended. `queue`: a launch returns when an operation has left the full launch queue.
    `reads`: a call begins when an operation has ended (HandedReads).
    """

    events: Places
    returns: Places
    handovers: Places
    queue: Places
    reads: Places


@dataclass(frozen=True)
class NoGraph:
    """A rank without a graph. `why`: "the report holds no launches in its steps"."""

    rank: int
    device: int
    why: str


@dataclass(frozen=True, eq=False)
class RankGraph:
    """The window of one rank. `first` is the index of the window's first step among the rank's
    steps, `count` the number of its steps.
    """

    rank: int
    device: int
    first: int
    count: int
    calls: HostCalls
    ops: GpuOps
    links: Links
    names: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    streams: tuple[int, ...] = ()
    contradictions: int = 0
    """Recorded events that the times contradict."""
    begin: int = field(default=0)
    gpu: str = ""
    """The model of the GPU, as Activity.gpu."""
    multiprocessors: int = 0
    """How many the GPU has; 0 where the report does not say it."""
    profiler: str = ""
    """The program that wrote the report, "" if it does not say so."""
    kinds: Codes = field(default_factory=lambda: np.empty(0, np.int32))
    """The kinds of an engine's iterations, by step (serving.marks.KINDS); else empty."""


def pick_rows(table: Table, rows: IntArray) -> Table:
    """The table with these rows only."""
    columns = {column.name: getattr(table, column.name)[rows] for column in fields(table)}
    return replace(table, **columns)


def number_rows(keep: Flags) -> Places:
    """The new number of each row, NONE for those that are not kept. The extra last cell is NONE,
    so that NONE stays NONE.
    """
    numbers = np.full(len(keep) + 1, NONE, np.int32)
    numbers[:-1][keep] = np.arange(np.count_nonzero(keep), dtype=np.int32)
    return numbers


def renumber(pairs: Places, source: Places, target: Places) -> Places:
    """The pairs in new numbers, without those of which a row was not kept."""
    moved = np.stack((source[pairs[:, 0]], target[pairs[:, 1]]), axis=1)
    return moved[(moved >= 0).all(axis=1)]


def make_pairs(source: Sequence[int] | IntArray, target: Sequence[int] | IntArray) -> Places:
    """An array of (source, target), of shape (n, 2)."""
    return np.stack((np.asarray(source, np.int32), np.asarray(target, np.int32)), axis=1)


def cut_steps(graph: RankGraph, first: int, count: int) -> RankGraph:
    """The graph of fewer steps: `count` ones from `first`, an index among the rank's steps."""
    calls, ops, links = graph.calls, graph.ops, graph.links
    low = first - graph.first
    keep = (calls.step >= low) & (calls.step < low + count)
    begin = int(calls.start[keep].min()) if keep.any() else graph.begin
    runs_in = (ops.step < low) & (ops.end > begin)
    keep_op = runs_in | ((ops.step >= low) & (ops.step < low + count))
    call_number, op_number = number_rows(keep), number_rows(keep_op)
    kept_calls = pick_rows(calls, np.flatnonzero(keep))
    kept_ops = pick_rows(ops, np.flatnonzero(keep_op))
    step = np.maximum(kept_ops.step - low, BEFORE).astype(np.int32)
    return replace(
        graph,
        first=first,
        count=count,
        begin=begin,
        kinds=graph.kinds[low : low + count],
        calls=replace(kept_calls, step=(kept_calls.step - low).astype(np.int32)),
        ops=replace(kept_ops, step=step, call=call_number[kept_ops.call]),
        links=Links(
            events=renumber(links.events, op_number, op_number),
            returns=renumber(links.returns, op_number, call_number),
            handovers=renumber(links.handovers, call_number, call_number),
            queue=renumber(links.queue, op_number, call_number),
            reads=renumber(links.reads, op_number, call_number),
        ),
    )
