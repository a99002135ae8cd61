"""The change in which attention by single kernels is a fused kernel (FlashAttention)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags
from gpu_profile.analysis.replay.changes import (
    Apply,
    Change,
    choose_ops,
    scale_delays,
    skip_launches,
)
from gpu_profile.analysis.replay.edits.kernels.attention_kernels import (
    AttentionKernels,
    find_attention,
    find_letter,
)
from gpu_profile.analysis.replay.edits.kernels.tensor_cores import is_scalar
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights


@dataclass(frozen=True)
class _Reach:
    """What is left of the products' time in a `forward` and in a `backward` pass, and of that of
    products with a `vector`. `copies`: of copies of operands.
    """

    forward: float
    backward: float
    vector: float
    copies: float


# Of 23 shapes in bf16 (197 to 4,096 words, heads of 64 to 160, no mask, a causal one, an additive
# one; H200, torch 2.11) a fused kernel takes 0.31 to 1.30 of the time of the products forward, 0.59
# in the middle, and 0.61 to 2.77 backward, 1.1 in the middle: the products wait for memory, and it
# computes the scores again. For one word with 4,001 before, where four heads of queries share keys,
# it takes 0.15.
_LEAST = _Reach(1.3, 2.0, 1.0, copies=0.5)
_ESTIMATE = _Reach(0.6, 1.0, 0.25, copies=0.0)
_MOST = _Reach(0.3, 0.6, 0.125, copies=0.0)
UNALIGNED = 0.25
"""Of these parts, what is left of 16-bit products that read one number at a time, as rows of an odd
number of words make them: of 1,025 words (an image and one for its class; heads of 64, bf16, H200)
the products took 22.4 ms, and the fused kernel 4.5, a fifth."""
_UNALIGNED_NAME = re.compile(r"gemm_b?f16_.*_align1\b")
"""CUTLASS' name of such a kernel; in fp32 one number at a time is usual."""


def fuse_attention(ranks: Sequence[int] = ()) -> Change:
    """The kernels between the products are gone with their launches, and the products become a
    fused kernel. It comes after fp32 products that can run faster by themselves.
    """
    return Change(
        "unfused attention",
        _fuse(_ESTIMATE, ranks),
        ("unfused_attention",),
        list_earlier=lambda _graph: ("fp32 matrix products",),
        bounds=(_fuse(_LEAST, ranks), _fuse(_MOST, ranks)),
    )


def describe_reach() -> str:
    """What the estimate and its range take, as words."""
    forward, backward, vector = (
        f"{100 * middle:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)"
        for low, middle, high in (
            (_MOST.forward, _ESTIMATE.forward, _LEAST.forward),
            (_MOST.backward, _ESTIMATE.backward, _LEAST.backward),
            (_MOST.vector, _ESTIMATE.vector, _LEAST.vector),
        )
    )
    return (
        f"{forward} of the products' time are left in a forward pass, {backward} in a backward "
        f"one, and {vector} of products with vectors; {100 * UNALIGNED:.0f} % of that where rows "
        "are not aligned (align1 in the name), as with an odd number of words"
    )


def _fuse(reach: _Reach, ranks: Sequence[int]) -> Apply:
    def apply(graph: RunGraph, weights: Weights) -> Weights:
        kernels, chosen = _find_of_run(graph), choose_ops(graph, ranks)
        left = np.ones(len(weights.work))
        for part in fields(reach):
            left[getattr(kernels, part.name)] = getattr(reach, part.name)
        products = np.r_[kernels.forward, kernels.backward]
        left[products[_mark_unaligned(graph)[products]]] *= UNALIGNED
        left[kernels.scores] = 0.0
        left = np.where(_mark_scalar(graph), np.minimum(left, 1.0), left)
        rows = np.flatnonzero(chosen & (left != 1))
        work = np.rint(left[rows] * weights.work[rows]).astype(np.int64)
        gone, joined = (
            rows[left[rows] == 0],
            kernels.joined_products[chosen[kernels.joined_products]],
        )
        weights = scale_delays(
            graph, weights.with_work(rows, work), graph.nodes.op_start[gone], 0.0
        )
        return skip_launches(graph, weights, np.union1d(gone, joined))

    return apply


@once_each
def _mark_scalar(graph: RunGraph) -> Flags:
    """A mask of the products without tensor cores, which a fused kernel does not make slower."""
    return np.array([is_scalar(name) for name in graph.names], bool)[graph.ops.name]


@once_each
def _mark_unaligned(graph: RunGraph) -> Flags:
    """A mask of the 16-bit products whose operands are not aligned."""
    names = [bool(_UNALIGNED_NAME.search(name)) for name in graph.names]
    return np.array(names, bool)[graph.ops.name]


@once_each
def _find_of_run(graph: RunGraph) -> AttentionKernels:
    ops = graph.ops
    rows = np.flatnonzero(ops.kind == COMPUTE)
    letters = [find_letter(name) for name in graph.names]
    stream = ops.stream[rows] + len(graph.streams) * graph.op_rank[rows]
    length = ops.end[rows] - ops.start[rows]
    return find_attention(letters, ops.name[rows], stream, ops.start[rows], length).of(rows)
