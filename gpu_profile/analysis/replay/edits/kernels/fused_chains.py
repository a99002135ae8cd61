"""The change in which a chain of elementwise kernels is one kernel."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.replay.changes import (
    Apply,
    Change,
    choose_ops,
    scale_delays,
    skip_launches,
)
from gpu_profile.analysis.replay.edits.kernels.elementwise_chains import (
    Chains,
    find_chains,
    find_work,
)
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

ESTIMATE = 0.5
"""Between the least (0) and the most (1) that a fused kernel reads and writes: the middle."""


def fuse_chains(ranks: Sequence[int] = ()) -> Change:
    """Of each chain one kernel and its launch are left. It comes after causes that gain half as
    much (is_bound): the program has to be written anew, or compiled.
    """
    return Change(
        "unfused elementwise kernels",
        _fuse(ESTIMATE, ranks),
        ("unfused_elementwise",),
        is_bound=True,
        bounds=(_fuse(1.0, ranks), _fuse(0.0, ranks)),
    )


def _fuse(share: float, ranks: Sequence[int]) -> Apply:
    def apply(graph: RunGraph, weights: Weights) -> Weights:
        chains = _find_chains_of_run(graph)
        chosen = choose_ops(graph, ranks)[chains.rows]
        rows, left = chains.rows[chosen], chains.measure_left(share)[chosen]
        weights = weights.with_work(rows, np.rint(left * weights.work[rows]).astype(np.int64))
        gone = rows[chains.mark_later()[chosen]]
        weights = scale_delays(graph, weights, graph.nodes.op_start[gone], 0.0)
        return skip_launches(graph, weights, gone)

    return apply


@once_each
def _find_chains_of_run(graph: RunGraph) -> Chains:
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
