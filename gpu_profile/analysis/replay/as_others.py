"""Changes in which one rank does its work in the time in which the others do theirs."""

import re

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray, Places
from gpu_profile.analysis.replay.changes import (
    Apply,
    choose_calls,
    choose_ops,
    find_edges,
    free_calls,
    match_names,
    scale_delays,
)
from gpu_profile.analysis.replay.rank.rank_graph import NONE, Codes
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights

Reals = NDArray[np.float64]


MESSAGES = re.compile("SendRecv|AllToAll", re.IGNORECASE)
LEAST_ALIKE = 0.8
"""The part of the other ranks' kernels that a rank launches, too, in data parallelism; less where
stages of a pipeline hold different layers: there "as the others" would be less work."""


def list_comparable_ranks(graph: RunGraph) -> list[int]:
    """The ranks that launch the kernels of the median of the others, and mostly no fewer; more of
    them are work to balance.

    None where ranks send each other messages: stages and experts differ by design.
    """
    if has_messages(graph):
        return []
    chosen = choose_ops(graph) & (graph.ops.kind == COMPUTE)
    counts = np.zeros((len(graph.ranks), len(graph.names)))
    np.add.at(counts, (graph.op_rank[chosen], graph.ops.name[chosen]), 1)
    ranks = list[int]()
    for row, entry in enumerate(graph.ranks):
        others = np.median(np.delete(counts, row, axis=0), axis=0)
        shared = np.minimum(counts[row], others).sum()
        if shared >= LEAST_ALIKE * others.sum():
            ranks.append(entry.rank)
    return ranks


def has_messages(graph: RunGraph) -> bool:
    """Whether ranks send each other messages, as stages of a pipeline and experts do."""
    return bool(_choose_messages(graph).any())


def has_pairs(graph: RunGraph) -> bool:
    """Whether messages go from one rank to another one, as between stages of a pipeline, or may do
    so. In an all-to-all, which NCCL makes of messages, all ranks meet.
    """
    is_message = _choose_messages(graph) & graph.live
    is_arrival = np.zeros(len(graph.time), bool)
    is_arrival[graph.nodes.arrival] = True
    edges = graph.edges
    joins = np.zeros(len(graph.time), bool)
    joins[edges.source[is_arrival[edges.target]]] = True
    joined = joins[graph.nodes.op_start]
    pairs = is_message & graph.meets & ~joined
    return bool(pairs.any() or (is_message.any() and not joined[is_message].any()))


def _choose_messages(graph: RunGraph) -> Flags:
    """A mask of the operations that are messages by their names."""
    named = match_names(graph, MESSAGES)[graph.ops.name]
    return np.asarray((graph.ops.kind == COMMUNICATION) & named, np.bool_)


def speed_up_gpu(rank: int) -> Apply:
    """The rank computes and copies as fast, and as little, as the median of the other ranks."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        works = choose_ops(graph) & (graph.ops.kind != COMMUNICATION)
        key = _find_shapes(graph) * (1 + len(graph.ops.start)) + number_parts(graph)[0]
        chosen = works & choose_ops(graph, [rank])
        step = graph.ops.step.astype(np.int64)
        factor = _compare_items(graph.op_rank, step, key, weights.work, works, chosen)
        rows = np.flatnonzero(chosen)
        changed = weights.with_work(rows, np.rint(weights.work[rows] * factor[rows]))
        # Work that the others do not have needs no launches either.
        calls = graph.ops.call[rows[factor[rows] == 0]]
        return free_calls(graph, changed, np.unique(calls[calls != NONE]).astype(np.int64))

    return apply


def speed_up_host(rank: int) -> Apply:
    """The rank's host takes as long for each kind of launch as the median of the others' hosts."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        key = _find_launch_keys(graph) * (1 + len(graph.ops.start)) + number_parts(graph)[1]
        all_calls = np.ones(len(graph.calls.start), bool)
        chosen = choose_calls(graph, [rank])
        step = graph.calls.step.astype(np.int64)
        spent = measure_calls(graph, weights)
        factor = _compare_items(graph.call_rank, step, key, spent, all_calls, chosen)
        rows = np.flatnonzero(chosen)
        return scale_calls(graph, weights, rows, factor[rows])

    return apply


def scale_calls(graph: RunGraph, weights: Weights, calls: IntArray, factor: Reals) -> Weights:
    """The calls, and the host's work and pauses before them, take `factor` of their time."""
    nodes = graph.nodes
    weights = scale_delays(graph, weights, nodes.call_start[calls], factor)
    # The end of a waiting call is late by the GPU's work, which these changes leave.
    free = ~graph.calls.waits[calls]
    weights = scale_delays(graph, weights, nodes.call_end[calls[free]], factor[free])
    of_node = np.ones(len(graph.time))
    of_node[nodes.call_end[calls]] = factor
    edges = find_edges(graph, nodes.call_end[calls], Edge.CALL)
    scaled = weights.lag[edges] * of_node[graph.edges.target[edges]]
    return weights.with_lag(edges, np.rint(scaled).astype(np.int64))


def measure_calls(graph: RunGraph, weights: Weights) -> IntArray:
    """The host's time (ns) for each call: its own, and the work and pauses before it."""
    nodes, moves = graph.nodes, graph.has_source
    before = np.where(moves[nodes.call_start], weights.delay[nodes.call_start], 0)
    spent = np.zeros(len(graph.time), np.int64)
    edges = find_edges(graph, nodes.call_end, Edge.CALL)
    spent[graph.edges.target[edges]] = weights.lag[edges]
    late = np.where(graph.calls.waits, 0, weights.delay[nodes.call_end])
    # What is left at the end of a waiting call is the GPU's time, which no faster host saves.
    return np.asarray(before + spent[nodes.call_end] + late, np.int64)


@once_each
def _find_shapes(graph: RunGraph) -> IntArray:
    """A number of each operation's name and grid, and of a copy's kind of memory: one from pageable
    memory is as another such copy of the other ranks, not as a larger one from pinned memory.
    """
    ops = graph.ops
    shape = np.stack((ops.name.astype(np.int64), ops.grid, ops.pageable), axis=1)
    return np.asarray(np.unique(shape, axis=0, return_inverse=True)[1].ravel(), np.int64)


@once_each
def number_parts(graph: RunGraph) -> tuple[IntArray, IntArray]:
    """For each operation, and for each call, how many collectives its rank launched before it in
    its step: ranks meet there, and what one of them does more between two of them delays the
    second one, whatever it does elsewhere. 0 in steps of which the ranks launch unequal numbers.
    """
    ops, calls = graph.ops, graph.calls
    rows = np.flatnonzero(graph.live & (ops.call != NONE))
    of_ops = np.zeros(len(ops.start), np.int64)
    of_ops[rows] = _count_before(graph, graph.op_rank[rows], ops.step[rows], ops.call[rows])
    every_call = np.arange(len(calls.start))
    return of_ops, _count_before(graph, graph.call_rank, calls.step, every_call)


def _count_before(
    graph: RunGraph, rank: IntArray, step: Codes, call: Places | IntArray
) -> IntArray:
    """How many collectives the rank launched in the step before the call; 0 as of its caller."""
    ops, ranks, steps = graph.ops, len(graph.ranks), graph.steps
    meets = np.flatnonzero((ops.kind == COMMUNICATION) & graph.live & (ops.call != NONE))
    code = graph.op_rank[meets] * steps + ops.step[meets]
    count = np.bincount(code, minlength=ranks * steps).reshape(ranks, steps)
    is_equal = (count == count[0]).all(axis=0)
    first = np.r_[0, np.cumsum(count.ravel())]
    met = np.sort(_make_keys(graph, graph.op_rank[meets], ops.step[meets], ops.call[meets]))
    before = np.searchsorted(met, _make_keys(graph, rank, step, call)) - first[rank * steps + step]
    return np.where(is_equal[step], before, 0)


def _make_keys(graph: RunGraph, rank: IntArray, step: Codes, call: Places | IntArray) -> IntArray:
    """Numbers in the order of ranks, of a rank's steps, and of the starts of calls in a step."""
    start = graph.calls.start
    begin, end = int(start.min(initial=0)), int(start.max(initial=0))
    keys = (rank * graph.steps + step) * (end - begin + 1) + start[call] - begin
    return np.asarray(keys, np.int64)


@once_each
def _find_launch_keys(graph: RunGraph) -> IntArray:
    """A number of what each call does: its name, and the operation that its thread launches
    next.
    """
    ops, calls = graph.ops, graph.calls
    launched = np.full(len(calls.start), NONE)
    # Last to first: of a call that launches several operations the first one stays in `launched`.
    rows = np.flatnonzero(ops.call != NONE)[::-1]
    launched[ops.call[rows]] = rows
    order = np.arange(len(calls.start))
    following = np.where(launched >= 0, order, len(order))
    # A minimum from the end on: for each call the nearest one, itself included, that launches.
    following = np.minimum.accumulate(following[::-1])[::-1]
    last = np.minimum(following, len(order) - 1)
    same = (following < len(order)) & (calls.thread[last] == calls.thread)
    name = np.where(same, ops.name[launched[last]], len(graph.names))
    return np.asarray(name * (len(graph.names) + 1) + calls.name, np.int64)


def _compare_items(
    rank: IntArray, step: IntArray, key: IntArray, value: IntArray, chosen: Flags, of_rank: Flags
) -> Reals:
    """For the own items the median of the other ranks' items over the own value, at most 1.

    Items of one key and step are paired by size, the longest with the longest. An item that most
    others do not have is 0.
    """
    rows = np.flatnonzero(chosen & (value > 0))
    rows = rows[np.lexsort((-value[rows], step[rows], key[rows], rank[rows]))]
    groups = np.stack((rank[rows], step[rows], key[rows]), axis=1)
    begins = np.r_[True, (groups[1:] != groups[:-1]).any(axis=1)][: len(rows)]
    number = np.arange(len(rows))
    number -= np.maximum.accumulate(np.where(begins, number, 0))
    # one integer an item: np.unique on rows of a matrix takes ten times as long
    # 2 and + 1, because the step of what began before the window is -1 (BEFORE).
    places, steps = int(number.max(initial=0)) + 1, int(step.max(initial=0)) + 2
    items = (key[rows] * steps + step[rows] + 1) * places + number
    code = np.unique(items, return_inverse=True)[1].ravel()
    ranks = int(rank.max(initial=0)) + 1
    table = np.zeros((int(code.max(initial=-1)) + 1, ranks))
    table[code, rank[rows]] = value[rows]
    mine = of_rank[rows]
    others = np.delete(table, np.unique(rank[rows[mine]]), axis=1)
    factor = np.ones(len(value))
    median = np.median(others, axis=1)[code[mine]]
    factor[rows[mine]] = np.minimum(1.0, median / value[rows[mine]])
    return factor
