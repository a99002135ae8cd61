"""The change in which communication slows no compute beside it."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.replay.changes import Change, choose_ops
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights


def remove_contention(ranks: Sequence[int] = ()) -> Change:
    """Compute beside communication takes as long as alone.

    A bound: communication that uses no SM still uses memory and links.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        ops = graph.ops
        duration = np.maximum(ops.end - ops.start, 1)
        slowed = choose_ops(graph, ranks) & (ops.kind == COMPUTE) & (graph.work < duration)
        rows = np.flatnonzero(slowed)
        # The replay stretches a kernel as the recording did: by duration / work.
        less = weights.work[rows] * (graph.work[rows] / duration[rows])
        return weights.with_work(rows, np.rint(less).astype(np.int64))

    return Change("contention", apply, ("contention",), is_bound=True)
