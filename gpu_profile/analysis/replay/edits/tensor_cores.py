"""The change in which fp32 matrix products run on the tensor cores, as TF32."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.modules.peaks import FP32, TF32, find_format, find_peaks
from gpu_profile.analysis.replay.changes import Apply, Change, choose_ops
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights
from gpu_profile.analysis.tables.kernel_class import classify_kernel

REACHED = 0.7
"""Of the ratio of peak rates. On an H100, whose peaks differ 7.4 times, the matrix products of a
GPT took 26.6 ms a step in fp32 and 5.1 ms in TF32: 5.2 times."""
LEAST_SPEED_UP = 2.0
"""Of products that are too small to keep the tensor cores busy, or wait for memory."""
_DEPTHWISE = ("c1_k1", "depthwise", "grouped_direct")


def is_scalar(name: str) -> bool:
    """Whether a kernel multiplies matrices in fp32 without tensor cores, by its full name."""
    if is_depthwise(name):
        return False
    return classify_kernel(name) == "GEMM" and find_format(name) == FP32


def is_depthwise(name: str) -> bool:
    """Whether a kernel is a depthwise convolution, by its full name (`conv2d_c1_k1_nhwc`).

    No tensor core helps it, as each of its channels is a product of its own.
    """
    return any(word in name.lower() for word in _DEPTHWISE)


def find_ratio(gpu: str) -> float:
    """The GPU's peak rate of TF32 over that of fp32; 0 if it is unknown or has no such units."""
    peaks = find_peaks(gpu)
    return peaks[TF32] / peaks[FP32] if TF32 in peaks else 0.0


def use_tensor_cores(ranks: Sequence[int] = ()) -> Change:
    """The products become REACHED of the ratio of peak rates as fast. The bounds are
    LEAST_SPEED_UP and that ratio: no product can gain more than the units differ.

    It comes behind causes that gain half as much (is_bound), as TF32 rounds to 10 bits.
    """
    bounds = _speed_up(0.0, ranks), _speed_up(1.0, ranks)
    return Change(
        "fp32 matrix products",
        _speed_up(REACHED, ranks),
        ("no_tensor_cores",),
        is_bound=True,
        bounds=bounds,
    )


def _speed_up(reached: float, ranks: Sequence[int]) -> Apply:
    def apply(graph: RunGraph, weights: Weights) -> Weights:
        scalar = np.array([is_scalar(name) for name in graph.names], bool)
        ratios = np.array([find_ratio(rank_graph.gpu) for rank_graph in graph.ranks])
        speed_up = np.maximum(reached * ratios, LEAST_SPEED_UP)
        chosen = choose_ops(graph, ranks) & (graph.ops.kind == COMPUTE) & scalar[graph.ops.name]
        rows = np.flatnonzero(chosen & (ratios > LEAST_SPEED_UP)[graph.op_rank])
        faster = weights.work[rows] / speed_up[graph.op_rank[rows]]
        return weights.with_work(rows, np.rint(faster).astype(np.int64))

    return apply
