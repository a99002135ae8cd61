"""The change in which fp32 matrix products run on the tensor cores, as TF32, or in 16 bits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.modules.peaks import BF16, FP32, TF32, find_format, find_peaks
from gpu_profile.analysis.replay.changes import Apply, Change, choose_ops
from gpu_profile.analysis.replay.edits.kernels.upcasts import find_upcasts
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


def find_ratio(gpu: str, number_format: str = TF32) -> float:
    """The GPU's peak rate of a format over that of fp32; 0 where it is unknown."""
    peaks = find_peaks(gpu)
    return peaks[number_format] / peaks[FP32] if number_format in peaks else 0.0


@dataclass(frozen=True)
class _Reach:
    """`part` of the ratio of peak rates that products reach; and around those that a 16-bit program
    computes in fp32 what is left of the casts, and of what stands between.
    """

    part: float
    casts: float
    between: float


_LEAST, _ESTIMATE, _MOST = _Reach(0.0, 1.0, 1.0), _Reach(REACHED, 0.0, 1.0), _Reach(1.0, 0.0, 0.5)


def use_tensor_cores(ranks: Sequence[int] = ()) -> Change:
    """The products become REACHED of the ratio of peak rates as fast. The bounds are
    LEAST_SPEED_UP and that ratio: no product can gain more than the units differ.

    Products of a 16-bit program that are computed in fp32 stay in 16 bits, without the casts around
    them. At the most what stands between moves half as many bytes.

    It comes behind causes that gain half as much (is_bound), as TF32 rounds to 10 bits.
    """
    return Change(
        "fp32 matrix products",
        _speed_up(_ESTIMATE, ranks),
        ("no_tensor_cores",),
        is_bound=True,
        describe=_describe_upcasts,
        bounds=(_speed_up(_LEAST, ranks), _speed_up(_MOST, ranks)),
    )


def _speed_up(reach: _Reach, ranks: Sequence[int]) -> Apply:
    def apply(graph: RunGraph, weights: Weights) -> Weights:
        scalar = np.array([is_scalar(name) for name in graph.names], bool)
        chosen = choose_ops(graph, ranks) & (graph.ops.kind == COMPUTE)
        ratio, upcasts = _list_ratios(graph, TF32), find_upcasts(graph)
        chosen &= ratio > LEAST_SPEED_UP
        ratio[upcasts.products] = _list_ratios(graph, BF16)[upcasts.products]
        faster = 1 / np.maximum(reach.part * ratio, LEAST_SPEED_UP)
        left = np.where(scalar[graph.ops.name], faster, 1.0)
        left[upcasts.casts], left[upcasts.between] = reach.casts, reach.between
        rows = np.flatnonzero(chosen & (left < 1))
        return weights.with_work(rows, np.rint(weights.work[rows] * left[rows]).astype(np.int64))

    return apply


def _list_ratios(graph: RunGraph, number_format: str) -> NDArray[np.float64]:
    ratios = [find_ratio(rank_graph.gpu, number_format) for rank_graph in graph.ranks]
    return np.array(ratios, np.float64)[graph.op_rank]


def _describe_upcasts(graph: RunGraph) -> str:
    """Evidence of products that a 16-bit program computes in fp32; "" without any."""
    found = find_upcasts(graph)
    if not len(found.casts):
        return ""
    ms = float((graph.ops.end - graph.ops.start)[found.casts].sum()) / graph.steps / 1e6
    return (
        f"{len(found.products) / graph.steps:.0f} of these products a step stand between casts "
        f"from and to 16 bits, which take {ms:.2f} ms: the cost is that of products in 16 bits "
        "without these casts"
    )
