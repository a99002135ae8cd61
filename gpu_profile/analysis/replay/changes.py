"""Changes of a program, as changes of the graph's times: each takes a cause away.

Nodes without edges (roots) never change: they began as recorded. Texts are nouns for a plan:
"host pauses 57.1 -> 47.0 ms".
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, COPY, SYNC_NAME
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES
from gpu_profile.analysis.activity.load.operations import COPY_NAMES
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.rank.rank_graph import NONE, Codes
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights

Apply = Callable[[RunGraph, Weights], Weights]

LEAST_SHARE = 0.03
"""The part of the step from which on a cause is told: the threshold of all findings and plans."""
POOL_FREE_NAME = re.compile(r"cudaFreeAsync|cuMemFreeAsync")
RELEASE_NS = 50_000
"""A wait that returns so long after the GPU's last operation did more than wait: 2 to 20 us are
usual, and giving six blocks of 64 MB back took 700 (H200)."""


@dataclass(frozen=True)
class Change:
    """`text`: what is taken away, a noun. `kinds`: the kinds of findings that say the same;
    `rank`: of which rank only, None for all.
    """

    text: str
    apply: Apply
    kinds: tuple[str, ...] = ()
    rank: int | None = None
    is_bound: bool = False
    """It takes away more than a fix of the program can (every launch, or every transfer), or the
    fix changes what the program computes.
    """
    is_trade: bool = False
    """Its fix gives something up for the time, such as digits of the result or memory: it comes
    after all causes whose fix does not.
    """
    is_last: bool = False
    """A trade that the program may have made on purpose: it comes after bounds, too."""
    frees_communication: bool = False
    """Communication that is shorter slows what is on the critical path less."""
    core: Apply | None = None
    """The part that the critical path must hold, where the rest gains nothing of the cause."""
    list_earlier: Callable[[RunGraph], tuple[str, ...]] | None = None
    """Texts of the changes that have to be made before this one, where they gain anything."""
    unless: str = ""
    """The text of a change that tells the same where it gains anything by itself."""
    describe: Callable[[RunGraph], str] | None = None
    """Evidence of what else of the run goes, "" for nothing."""
    bounds: tuple[Apply, Apply] | None = None
    """The change at its least and at its most, where `apply` estimates how much it changes."""
    other_fix: tuple[str, Apply] | None = None
    """Another fix, a noun, and what it changes, where no recording tells which one is possible."""
    parts: tuple[tuple[str, Apply], ...] = ()
    """Parts that a program can change by themselves: a noun, and what each takes away."""

    def __getstate__(self) -> dict[str, object]:
        """Pickle what is told of the change: its functions are closures."""
        others = dict.fromkeys(("core", "list_earlier", "describe", "bounds", "other_fix"))
        return {**self.__dict__, "apply": _refuse, **others, "parts": ()}


def _refuse(_graph: RunGraph, _weights: Weights) -> Weights:
    raise TypeError("a change that was pickled cannot be applied")


def match_names(graph: RunGraph, pattern: re.Pattern[str]) -> Flags:
    """A mask over graph.names of those that contain the pattern."""
    return np.array([bool(pattern.search(name)) for name in graph.names], bool)


def match_copies(graph: RunGraph, copy_kind: int) -> Flags:
    """A mask of the operations that copy in this direction."""
    return match_names(graph, re.compile(re.escape(COPY_NAMES[copy_kind])))[graph.ops.name]


def match_small_copies(graph: RunGraph, copy_kind: int) -> Flags:
    """A mask of the operations that a call copies in this direction, under STAGED_BYTES each."""
    small = (graph.ops.bytes < STAGED_BYTES) & (graph.ops.call != NONE)
    return np.asarray(choose_ops(graph) & small & match_copies(graph, copy_kind), np.bool_)


def mark_launches(graph: RunGraph) -> Flags:
    """A mask of the calls that launch a kernel or a graph."""
    ops = graph.ops
    launches = np.zeros(len(graph.calls.start), bool)
    works = ((ops.kind == COMPUTE) | (ops.kind == COMMUNICATION)) & (ops.call != NONE)
    launches[ops.call[works]] = True
    return launches


def choose_calls(graph: RunGraph, ranks: Sequence[int] = ()) -> Flags:
    """A mask of the calls of these ranks, by number in the run; of all without."""
    return _choose_ranks(graph, graph.call_rank, ranks)


def choose_ops(graph: RunGraph, ranks: Sequence[int] = ()) -> Flags:
    """A mask of the operations of these ranks that were launched in the window."""
    return _choose_ranks(graph, graph.op_rank, ranks) & graph.live


def _choose_ranks(graph: RunGraph, of_row: IntArray, ranks: Sequence[int]) -> Flags:
    chosen = [not ranks or entry.rank in ranks for entry in graph.ranks]
    return np.asarray(np.array(chosen)[of_row], np.bool_)


def shorten(graph: RunGraph, weights: Weights, nodes: IntArray, by: IntArray | int) -> Weights:
    """Take time (ns) off the delays of nodes, down to 0; roots stay."""
    moves = graph.has_source[nodes]
    nodes, amount = nodes[moves], np.broadcast_to(by, nodes.shape)[moves]
    return weights.with_delay(nodes, np.maximum(weights.delay[nodes] - amount, 0))


def scale_delays(
    graph: RunGraph, weights: Weights, nodes: IntArray, factor: NDArray[np.float64] | float
) -> Weights:
    """Multiply the delays of nodes; roots stay."""
    moves = graph.has_source[nodes]
    nodes, by = nodes[moves], np.broadcast_to(factor, nodes.shape)[moves]
    return weights.with_delay(nodes, np.rint(weights.delay[nodes] * by).astype(np.int64))


def find_staged_copies(graph: RunGraph, ranks: Sequence[int] = ()) -> IntArray:
    """The operations that copy STAGED_BYTES or more from or to pageable memory, by a call.

    The driver copies through memory of its own: 0.15 to 0.2 ms before such a copy begins, and 1.3
    ms after one of 16 MB to fresh memory (H100).
    """
    ops = graph.ops
    chosen = choose_ops(graph, ranks) & (ops.kind == COPY) & ops.pageable & (ops.call != NONE)
    return np.flatnonzero(chosen & (ops.bytes >= STAGED_BYTES))


def find_releases(graph: RunGraph, ranks: Sequence[int] = ()) -> IntArray:
    """The waits in which a memory pool gives memory back to the driver.

    They follow calls that free into the pool. It keeps at most its release threshold, which is 0
    where the program does not set it.
    """
    calls = graph.calls
    frees = np.cumsum(match_names(graph, POOL_FREE_NAME)[calls.name])
    waits = np.flatnonzero(choose_calls(graph, ranks) & match_names(graph, SYNC_NAME)[calls.name])
    follows = np.diff(frees[waits], prepend=0) > 0
    is_late = graph.delay[graph.nodes.call_end[waits]] >= RELEASE_NS
    return waits[follows & is_late & calls.waits[waits]]


def find_waits_after(graph: RunGraph, of_copies: Codes) -> IntArray:
    """The calls with those that wait for them right after, as .to(device) has it."""
    calls = np.unique(of_copies).astype(np.int64)
    thread, last = graph.calls.thread, len(graph.calls.thread) - 1
    next_call = np.minimum(calls + 1, last)
    waits = match_names(graph, SYNC_NAME)[graph.calls.name[next_call]]
    return np.union1d(calls, next_call[waits & (thread[next_call] == thread[calls])])


def find_edges(graph: RunGraph, nodes: IntArray, *kinds: Edge) -> IntArray:
    """The edges of these kinds into these nodes."""
    is_target = np.zeros(len(graph.time), bool)
    is_target[nodes] = True
    return np.flatnonzero(is_target[graph.edges.target] & np.isin(graph.edges.kind, kinds))


def free_calls(graph: RunGraph, weights: Weights, calls: IntArray) -> Weights:
    """These calls, and the host's work before them, take no time; pauses stay. Launches take no
    place in the launch queue.
    """
    nodes = graph.nodes
    weights = weights.without_edges(_find_queues_past(graph, calls))
    starts = nodes.call_start[calls]
    work = np.maximum(weights.delay[starts] - weights.silent[calls], 0)
    weights = shorten(graph, weights, starts, work)
    weights = weights.with_lag(find_edges(graph, nodes.call_end[calls], Edge.CALL), 0)
    return scale_delays(graph, weights, nodes.call_end[calls], 0.0)


def _find_queues_past(graph: RunGraph, calls: IntArray) -> IntArray:
    """The edges to launches that wait for room in a queue in which launches of `calls` stand: it
    is not full without these. An optimizer of 2,300 launches fills it, its fused form does not.
    """
    edges, nodes = graph.edges, graph.nodes
    queues = np.flatnonzero(edges.kind == Edge.QUEUE)
    launched = np.sort(graph.calls.start[np.intersect1d(calls, graph.ops.call)])
    row_of = np.full(len(graph.time), NONE)
    for each in (nodes.op_end, nodes.call_end):
        row_of[each] = np.arange(len(each))
    first = graph.ops.call[row_of[edges.source[queues]]]
    # What was launched before the window is ahead of all calls.
    begin = np.where(first == NONE, 0, graph.calls.start[first])
    end = graph.calls.start[row_of[edges.target[queues]]]
    ahead, behind = (np.searchsorted(launched, time, "right") for time in (begin, end))
    return queues[behind > ahead]


def skip_launches(graph: RunGraph, weights: Weights, ops: IntArray) -> Weights:
    """These kernels are not launched. A CUDA graph that holds them is, with the others in it."""
    is_kept = np.ones(len(graph.ops.call), bool)
    is_kept[ops] = False
    others = np.append(graph.ops.call[is_kept], NONE)
    calls = np.setdiff1d(graph.ops.call[ops], others).astype(np.int64)
    return free_calls(graph, weights, calls)


def unblock_calls(graph: RunGraph, weights: Weights, calls: IntArray) -> Weights:
    """These calls return without waiting for the GPU, and no thread has to be woken for them."""
    starts, ends = graph.nodes.call_start[calls], graph.nodes.call_end[calls]
    weights = weights.without_edges(find_edges(graph, ends, Edge.RETURN, Edge.STAGED))
    wakes = find_edges(graph, starts, Edge.RETURN)
    weights = scale_delays(graph, weights, graph.edges.target[wakes], 0.0)
    return scale_delays(graph, weights.without_edges(wakes), ends, 0.0)


def combine(changes: Sequence[Apply]) -> Apply:
    """All changes, one after the other."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        for change in changes:
            weights = change(graph, weights)
        return weights

    return apply
