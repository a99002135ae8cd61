"""Changes of some of an engine's iterations: those with prompts, and those without a graph."""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.serving.marks import DECODE, MIXED, PREFILL
from gpu_profile.analysis.activity.steps.step_period import GRAPH_CALL
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.as_others import measure_calls, scale_calls
from gpu_profile.analysis.replay.changes import (
    Change,
    choose_calls,
    choose_ops,
    free_calls,
    mark_launches,
    match_names,
)
from gpu_profile.analysis.replay.edits.calls import GRAPH_GAP_NS
from gpu_profile.analysis.replay.rank.rank_graph import Codes
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

Reals = NDArray[np.float64]


def _mark_kinds(graph: RunGraph, *kinds: int) -> Flags:
    """A mask by rank and step of the iterations of these kinds; its last column (BEFORE) is
    False.
    """
    table = np.zeros((len(graph.ranks), graph.steps + 1), np.bool_)
    for row, entry in enumerate(graph.ranks):
        table[row, : len(entry.kinds)] = np.isin(entry.kinds, kinds)
    return table


def _launch_as_graph(graph: RunGraph, weights: Weights) -> Weights:
    """Decode steps that launch kernels one by one do it by one call, as a graph's replay is."""
    calls, ops = graph.calls, graph.ops
    replays = np.zeros((len(graph.ranks), graph.steps + 1), np.bool_)
    by_graph = match_names(graph, GRAPH_CALL)[calls.name]
    replays[graph.call_rank[by_graph], calls.step[by_graph]] = True
    missed = _mark_kinds(graph, DECODE) & ~replays
    launches = np.flatnonzero(mark_launches(graph) & missed[graph.call_rank, calls.step])
    place = graph.call_rank[launches] * (graph.steps + 1) + calls.step[launches]
    order = np.lexsort((calls.start[launches], place))
    launches, place = launches[order], place[order]
    later = launches[np.r_[False, place[1:] == place[:-1]][: len(launches)]]
    weights = free_calls(graph, weights, later)
    rows = np.flatnonzero(choose_ops(graph) & np.isin(ops.call, later))
    starts = graph.nodes.op_start[rows]
    starts = starts[graph.has_source[starts]]
    return weights.with_delay(starts, np.minimum(weights.delay[starts], GRAPH_GAP_NS))


MISSED_GRAPHS = Change("decode steps without a graph", _launch_as_graph, ("graph_miss",))


def _read_elsewhere(graph: RunGraph, weights: Weights) -> Weights:
    """Iterations with prompts do no more than those that decode, as if another GPU read them."""
    ops, calls = graph.ops, graph.calls
    rows = np.flatnonzero(choose_ops(graph))
    factor = _find_factors(graph, graph.op_rank[rows], ops.step[rows], weights.work[rows])
    scaled = weights.work[rows] * factor[graph.op_rank[rows], ops.step[rows]]
    weights = weights.with_work(rows, np.rint(scaled).astype(np.int64))
    chosen = np.flatnonzero(choose_calls(graph))
    spent = measure_calls(graph, weights)[chosen]
    factor = _find_factors(graph, graph.call_rank[chosen], calls.step[chosen], spent)
    return scale_calls(graph, weights, chosen, factor[graph.call_rank[chosen], calls.step[chosen]])


def _find_factors(graph: RunGraph, rank: IntArray, step: Codes, spent: IntArray) -> Reals:
    """By rank and step, what is left of its time without prompts: as much as the median step that
    decodes has; nothing where only prompts are read.
    """
    sums = np.zeros((len(graph.ranks), graph.steps + 1))
    np.add.at(sums, (rank, step), spent)
    decodes, mixed = _mark_kinds(graph, DECODE), _mark_kinds(graph, MIXED)
    factor = np.ones(sums.shape)
    for row in np.flatnonzero(decodes.any(axis=1)).tolist():
        usual = float(np.median(sums[row, decodes[row]]))
        factor[row, mixed[row]] = np.minimum(1.0, usual / np.maximum(sums[row, mixed[row]], 1.0))
        factor[row, _mark_kinds(graph, PREFILL)[row]] = 0.0
    return factor


PROMPTS = Change("prompts", _read_elsewhere, ("mixed_steps",), is_bound=True)
"""A bound: somebody has to read the prompts."""
