"""Changes of the GPUs' work: how long communication and kernels take."""

import re
from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import Apply, choose_ops, match_names, scale_delays
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights


def scale_communication(factor: float, ranks: Sequence[int] = ()) -> Apply:
    """Collectives and messages move their data in `factor` of the time; waits stay."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        rows = np.flatnonzero(choose_ops(graph, ranks) & (graph.ops.kind == COMMUNICATION))
        met = rows[graph.meets[rows]]
        weights = scale_delays(graph, weights, graph.nodes.op_end[met], factor)
        lone = rows[~graph.meets[rows]]
        return weights.with_work(lone, np.rint(weights.work[lone] * factor).astype(np.int64))

    return apply


def find_kernels(graph: RunGraph, pattern: str, ranks: Sequence[int] = ()) -> IntArray:
    """The rows of the compute kernels with a name like the pattern."""
    matches = match_names(graph, re.compile(pattern, re.IGNORECASE))[graph.ops.name]
    return np.flatnonzero(choose_ops(graph, ranks) & (graph.ops.kind == COMPUTE) & matches)


def scale_kernels(pattern: str, factor: float, ranks: Sequence[int] = ()) -> Apply:
    """Compute kernels with a name like the pattern take `factor` of their time."""

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        rows = find_kernels(graph, pattern, ranks)
        return weights.with_work(rows, np.rint(weights.work[rows] * factor).astype(np.int64))

    return apply


def balance_compute() -> Apply:
    """Every rank computes in each step as long as the mean of all ranks: stages, experts or batches
    of equal work.

    First each kernel that all ranks have, by its name: where one rank's experts have more tokens,
    its attention has not.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        rows = np.flatnonzero(choose_ops(graph) & (graph.ops.kind != COMMUNICATION))
        rank, step, name = graph.op_rank[rows], graph.ops.step[rows], graph.ops.name[rows]
        work = weights.work[rows]
        sums = np.zeros((len(graph.ranks), graph.steps, len(graph.names)))
        np.add.at(sums, (rank, step, name), work)
        by_name, common = np.ones(sums.shape), (sums > 0).all(axis=0)
        by_name[:, common] = sums[:, common].mean(axis=0) / sums[:, common]
        by_rank = sums.sum(axis=2).mean(axis=0) / np.maximum((by_name * sums).sum(axis=2), 1)
        factor = by_name[rank, step, name] * by_rank[rank, step]
        return weights.with_work(rows, np.rint(work * factor).astype(np.int64))

    return apply
