"""The change in which a chain of elementwise kernels is one kernel."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import (
    LEAST_SHARE,
    Apply,
    Change,
    choose_ops,
    scale_delays,
    skip_launches,
)
from gpu_profile.analysis.replay.edits.kernels.elementwise_chains import (
    Chains,
    find_chains,
)
from gpu_profile.analysis.replay.edits.kernels.elementwise_work import find_work
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.step_times import measure_steps
from gpu_profile.analysis.replay.weights import Weights

ESTIMATE = 0.5
"""Between the least (0) and the most (1) that a fused kernel reads and writes: the middle."""
MAIN_PART = 0.5
"""The formula with the most time has that part of all chains at least, where small ones stay."""


def fuse_chains(ranks: Sequence[int] = ()) -> Change:
    """Of each chain one kernel and its launch are left. It comes after causes that gain half as
    much (is_bound): the program has to be written anew, or compiled.
    """
    return Change(
        "unfused elementwise kernels",
        _fuse(ESTIMATE, ranks),
        ("unfused_elementwise",),
        is_bound=True,
        describe=describe_small_chains,
        bounds=(_fuse(1.0, ranks), _fuse(0.0, ranks)),
    )


def describe_small_chains(graph: RunGraph) -> str:
    """Evidence of the chains that stay; "" where they are less than is told of a cause."""
    every, told = (chains.length.sum() for chains in (_find_chains(graph), _find_told(graph)))
    left = (every - told) / graph.steps
    if left < LEAST_SHARE * measure_steps(graph, graph.time).max():
        return ""
    return (
        f"chains of other formulas, {left / 1e6:.2f} ms of a recorded step, each formula less than "
        f"{100 * LEAST_SHARE:.0f} % of it, are not in the cost"
    )


def _fuse(share: float, ranks: Sequence[int]) -> Apply:
    def apply(graph: RunGraph, weights: Weights) -> Weights:
        chains = _find_told(graph)
        chosen = choose_ops(graph, ranks)[chains.rows]
        rows, left = chains.rows[chosen], chains.measure_left(share)[chosen]
        weights = weights.with_work(rows, np.rint(left * weights.work[rows]).astype(np.int64))
        gone = rows[chains.mark_later()[chosen]]
        weights = scale_delays(graph, weights, graph.nodes.op_start[gone], 0.0)
        return skip_launches(graph, weights, gone)

    return apply


@once_each
def _find_told(graph: RunGraph) -> Chains:
    """The chains of the run, but those of small formulas where one formula has the most time.

    Of a loss written out of 28 kernels over 262 M numbers, and the norms and activations of twelve
    layers, 71 chains of 0.2 ms at most, a fix of the loss leaves the others. Their kernels are
    launches.
    """
    chains = _find_chains(graph)
    if not len(chains.rows):
        return chains
    formula = _number_formulas(graph, chains)
    time = np.bincount(formula, weights=chains.length)
    if time.max() < MAIN_PART * time.sum():
        return chains
    least = LEAST_SHARE * graph.steps * measure_steps(graph, graph.time).max()
    return chains.pick(np.flatnonzero(time[formula] >= min(least, time.max())))


def _number_formulas(graph: RunGraph, chains: Chains) -> IntArray:
    """For each member the number of its chain's formula: of the names of the chain's kernels."""
    first = np.flatnonzero(~chains.mark_later())
    names = np.split(graph.ops.name[chains.rows], first[1:])
    numbers = dict[bytes, int]()
    of_chain = [numbers.setdefault(each.tobytes(), len(numbers)) for each in names]
    return np.repeat(np.array(of_chain, np.int64), [len(each) for each in names])


@once_each
def _find_chains(graph: RunGraph) -> Chains:
    ops = graph.ops
    rows = np.flatnonzero((ops.kind == COMPUTE) & choose_ops(graph))
    works = [find_work(name) for name in graph.names]
    stream = ops.stream[rows] + len(graph.streams) * graph.op_rank[rows]
    lane = stream * (1 + int(ops.step.max(initial=0))) + ops.step[rows]
    return find_chains(
        works,
        ops.name[rows],
        lane,
        ops.start[rows],
        ops.end[rows] - ops.start[rows],
        ops.blocks[rows] * ops.threads[rows],
    ).of(rows)
