"""The change in which kernels of 64-bit floats that wait for memory read and write 32 bits."""

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.arrays.types import Flags
from gpu_profile.analysis.replay.changes import Apply, Change, choose_ops
from gpu_profile.analysis.replay.edits.kernels.number_types import (
    DOUBLE,
    NARROWER,
    find_float,
    find_left,
)
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

FIXED_NS = 2_000
"""Of each kernel, whatever it reads: none is shorter."""
SPREAD = 1.25
"""The bounds move so many times the bytes, and as few. Functions of doubles, such as a power, are
bound by the units that compute them, too, and sorts of half the bits take half the passes; where
what did not fit into the GPU's cache fits then, more is gained."""
THROUGHOUT = 0.98
"""Of the time of kernels whose names say a floating-point type."""


def use_single_precision(has_only_doubles: bool) -> Change:
    """Kernels of doubles move half of the bytes. Products and kernels of the program's own
    stay: their units may limit them, and no name tells that.

    It is a trade, and comes last in a program that `has_only_doubles`: that may want them.
    """
    least, estimate, most = (_halve(times, has_only_doubles) for times in (SPREAD, 1.0, 1 / SPREAD))
    return Change(
        "double precision",
        estimate,
        ("double_precision",),
        is_bound=True,
        is_trade=True,
        is_last=has_only_doubles,
        bounds=(least, most),
    )


def _halve(times: float, has_only_doubles: bool) -> Apply:
    def apply(graph: RunGraph, weights: Weights) -> Weights:
        left = np.array([find_left(name, has_only_doubles) for name in graph.names], np.float64)
        of_op = left[graph.ops.name]
        rows = np.flatnonzero(choose_ops(graph) & (graph.ops.kind == COMPUTE) & (of_op < 1))
        work = weights.work[rows]
        moved = np.maximum(work - FIXED_NS, 0) * np.minimum(times * of_op[rows], 1.0)
        shorter = np.minimum(work, FIXED_NS) + np.rint(moved).astype(np.int64)
        return weights.with_work(rows, shorter)

    return apply


def has_only_doubles(graph: RunGraph) -> bool:
    """Whether all kernels of a run that name a floating-point type name doubles."""
    time = np.where(graph.ops.kind == COMPUTE, graph.ops.end - graph.ops.start, 0)
    sums = np.bincount(graph.ops.name, time, len(graph.names))
    double, narrower = (float(sums[_mark_names(graph, each)].sum()) for each in (DOUBLE, NARROWER))
    return is_throughout(double, narrower)


def is_throughout(double: float, narrower: float) -> bool:
    """Whether a program computes in doubles alone, by the time of kernels of each type."""
    return double > 0 and double >= THROUGHOUT * (double + narrower)


def _mark_names(graph: RunGraph, float_type: str) -> Flags:
    return np.array([find_float(name) == float_type for name in graph.names], bool)
