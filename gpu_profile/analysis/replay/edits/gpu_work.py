"""Changes of the GPUs' work: how long communication and kernels take."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.as_others import has_pairs, number_parts
from gpu_profile.analysis.replay.changes import Apply, choose_ops, match_names, scale_delays
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

Reals = NDArray[np.float64]


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

    That is so between each two collectives: what one rank does alone there, all share, and where
    one rank's experts have more tokens, its attention has not. Where messages go from one rank to
    another one, as between stages, ranks do not meet so: first each kernel that all ranks have, by
    its name, then the step.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        rows = np.flatnonzero(choose_ops(graph) & (graph.ops.kind != COMMUNICATION))
        rank, work = graph.op_rank[rows], weights.work[rows].astype(np.float64)
        step = graph.ops.step[rows].astype(np.int64)
        if has_pairs(graph):
            of_name = step * len(graph.names) + graph.ops.name[rows]
            wanted, has_all = _share_equally(rank, of_name, work)
            scaled = np.where(has_all, wanted * work, work)
            factor = scaled / np.maximum(work, 1) * _share_equally(rank, step, scaled)[0]
        else:
            part = number_parts(graph)[0][rows]
            factor = _share_equally(rank, step * (int(part.max(initial=0)) + 1) + part, work)[0]
        return weights.with_work(rows, np.rint(work * factor).astype(np.int64))

    return apply


def _share_equally(rank: IntArray, cell: IntArray, work: Reals) -> tuple[Reals, Flags]:
    """For each row the mean over the ranks of what is in its cell over its own rank's part of it,
    and whether all ranks have something there.
    """
    code = np.unique(cell, return_inverse=True)[1].ravel()
    sums = np.zeros((int(rank.max(initial=0)) + 1, int(code.max(initial=0)) + 1))
    np.add.at(sums, (rank, code), work)
    factor = sums.mean(axis=0) / np.maximum(sums, 1)
    has_all = np.asarray((sums > 0).all(axis=0), np.bool_)
    return factor[rank, code], has_all[code]
