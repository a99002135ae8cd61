"""The change in which the rows of matrices of 16 bits and TF32 begin at multiples of 16 bytes."""

import re

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import LEAST_SHARE, Apply, Change, choose_ops
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.step_times import measure_steps
from gpu_profile.analysis.replay.weights import Weights

_UNALIGNED = re.compile(r"tensorop_(?!g?[cdz]\d)\w*?gemm(\w*)_align([12])\b")
"""In names of CUTLASS, which cuBLAS has for such rows: `cutlass_75_tensorop_bf16_s1688gemm_
bf16_128x128_tn_align1` loads one element at a time. All kernels of doubles (d884gemm) and of
complex numbers (c1688gemm, z884gemm) are so."""
_TRANSPOSE = re.compile(r"nchwToNhwc|nhwcToNchw")
LEFT = {"1": 0.18, "2": 0.35}
"""The part of the time that an aligned product of 16 bits takes, by the elements that an unaligned
one loads at a time. On an H200 products of 8192 x 4096 x 4096 took 1,760 to 2,870 us with a side of
4,097, 950 to 1,070 with 4,098 or 4,100, and 345 to 363 with 4,096; with a side of 512 or 32,000 in
place of 4,096 the same parts: 0.13 to 0.23, and 0.27 to 0.41."""
LEFT_TF32 = 0.4
"""Of TF32, in the same products: 0.33 to 0.55."""
FIXED_NS = 20_000
"""Small products gain less: of 2048 x 1024 x 1024 50 to 86 us became 31 to 36."""
SPREAD = 1.5
"""The bounds take so many times as much, and as little."""


def find_left(name: str) -> float:
    """The part of the time of this kernel that is left with aligned rows; 1.0 of others."""
    match = _UNALIGNED.search(name)
    if not match:
        return 1.0
    return LEFT[match[2]] if "f16" in match[0] else LEFT_TF32


def align_products() -> Change:
    """Matrices are filled to a multiple of eight elements. Where cuDNN transposes images, products
    may be convolutions, whose rows are those of images: then nothing is told.
    """
    return Change(
        "unaligned matrix products",
        _align(1.0),
        ("unaligned_matmul",),
        bounds=(_align(SPREAD), _align(1 / SPREAD)),
    )


def _align(times: float) -> Apply:
    def apply(graph: RunGraph, weights: Weights) -> Weights:
        if _transposes_images(graph):
            return weights
        rows = np.flatnonzero(choose_ops(graph) & (graph.ops.kind == COMPUTE))
        return shorten_products(graph, weights, rows, times)

    return apply


def shorten_products(graph: RunGraph, weights: Weights, rows: IntArray, times: float) -> Weights:
    """Those of these operations that are unaligned take `times` the estimate."""
    left = _list_left(graph)[rows]
    rows, left = rows[left < 1], times * left[left < 1]
    work = weights.work[rows]
    shorter = np.minimum(work, np.rint(left * work + FIXED_NS).astype(np.int64))
    return weights.with_work(rows, shorter)


def _list_left(graph: RunGraph) -> NDArray[np.float64]:
    """find_left() of each operation."""
    return np.array([find_left(name) for name in graph.names], np.float64)[graph.ops.name]


def is_transpose(name: str) -> bool:
    """Whether a kernel transposes images for a convolution of cuDNN, by its full name."""
    return bool(_TRANSPOSE.search(name))


def mark_transposes(graph: RunGraph) -> NDArray[np.bool_]:
    """A mask of the operations in which cuDNN transposes images for a convolution."""
    return np.array([is_transpose(name) for name in graph.names], bool)[graph.ops.name]


def _transposes_images(graph: RunGraph) -> bool:
    """Whether cuDNN transposes images for LEAST_SHARE of a step."""
    ns = float((graph.ops.end - graph.ops.start)[mark_transposes(graph)].sum()) / graph.steps
    return ns >= LEAST_SHARE * float(measure_steps(graph, graph.time).max())
