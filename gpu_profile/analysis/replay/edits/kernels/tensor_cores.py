"""The change in which fp32 matrix products run on the tensor cores, as TF32, or in 16 bits."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.modules.peaks import BF16, FP32, TF32, find_format, find_peaks
from gpu_profile.analysis.replay.changes import Apply, Change, choose_ops, combine
from gpu_profile.analysis.replay.edits.kernels.upcasts import find_upcasts
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights
from gpu_profile.analysis.tables.kernel_class import classify_kernel

REACHED = 0.7
"""Of the ratio of peak rates. On an H100, whose peaks differ 7.4 times, the matrix products of a
GPT took 26.6 ms a step in fp32 and 5.1 ms in TF32: 5.2 times."""
HALF = 0.5
"""Of the bytes of fp32."""
LEAST_SPEED_UP = 2.0
"""Of products that are too small to keep the tensor cores busy, or wait for memory."""
_VECTOR = "gemv"
"""In the name of a product with a vector, or with so few rows that cuBLAS takes it for some: it
reads its matrix once, and waits for memory on any units."""
_DEPTHWISE = ("c1_k1", "depthwise", "grouped_direct")


def is_scalar(name: str) -> bool:
    """Whether a kernel multiplies matrices in fp32 without tensor cores, by its full name."""
    if is_depthwise(name) or _VECTOR in name.lower():
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


def use_tensor_cores(ranks: Sequence[int] = ()) -> Change:
    """The products become REACHED of the ratio of peak rates as fast. The bounds are
    LEAST_SPEED_UP and that ratio: no product can gain more than the units differ. Products that a
    16-bit program casts to fp32 stay in 16 bits: those of attention, and at the most all.

    It comes after causes that gain half as much (is_bound), as TF32 rounds to 10 bits.
    """
    estimate = combine((_skip_casts(ranks, of_attention=True), _speed_up(REACHED, ranks)))
    most = combine((_skip_casts(ranks, of_attention=False), _speed_up(1.0, ranks)))
    return Change(
        "fp32 matrix products",
        estimate,
        ("no_tensor_cores",),
        is_bound=True,
        describe=_describe_upcasts,
        bounds=(_speed_up(0.0, ranks), most),
    )


def _speed_up(reached: float, ranks: Sequence[int]) -> Apply:
    def apply(graph: RunGraph, weights: Weights) -> Weights:
        scalar = np.array([is_scalar(name) for name in graph.names], bool)
        ratio = _list_ratios(graph, TF32)
        chosen = choose_ops(graph, ranks) & (graph.ops.kind == COMPUTE) & scalar[graph.ops.name]
        rows = np.flatnonzero(chosen & (ratio > LEAST_SPEED_UP))
        faster = weights.work[rows] / np.maximum(reached * ratio[rows], LEAST_SPEED_UP)
        return weights.with_work(rows, np.rint(faster).astype(np.int64))

    return apply


def _skip_casts(ranks: Sequence[int], of_attention: bool) -> Apply:
    """Products that a 16-bit program casts to fp32 are as much faster as 16 bits are than TF32.
    There are no casts around them, and what stands between moves half as many bytes.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        upcasts, left = find_upcasts(graph, of_attention), np.ones(len(weights.work))
        slower, faster = (_list_ratios(graph, each)[upcasts.products] for each in (TF32, BF16))
        left[upcasts.products] = slower / np.maximum(faster, 1.0)
        left[upcasts.casts], left[upcasts.others] = 0.0, HALF
        known = _list_ratios(graph, TF32) > LEAST_SPEED_UP
        rows = np.flatnonzero(choose_ops(graph, ranks) & known & (left < 1))
        return weights.with_work(rows, np.rint(weights.work[rows] * left[rows]).astype(np.int64))

    return apply


def _list_ratios(graph: RunGraph, number_format: str) -> NDArray[np.float64]:
    ratios = [find_ratio(rank_graph.gpu, number_format) for rank_graph in graph.ranks]
    return np.array(ratios, np.float64)[graph.op_rank]


def _describe_upcasts(graph: RunGraph) -> str:
    """Evidence of products that a 16-bit program computes in fp32; "" without any."""
    upcasts = find_upcasts(graph)
    if not len(upcasts.casts):
        return ""
    ms = float((graph.ops.end - graph.ops.start)[upcasts.casts].sum()) / graph.steps / 1e6
    return (
        f"{len(upcasts.products) / graph.steps:.0f} of these products a step stand between casts "
        f"from and to 16 bits, which take {ms:.2f} ms: {_describe_estimate(graph)}"
    )


def _describe_estimate(graph: RunGraph) -> str:
    if len(find_upcasts(graph, True).casts):
        return "the estimate has attention in 16 bits, without these casts"
    return "in 16 bits, without these casts, they gain the most of the range"
