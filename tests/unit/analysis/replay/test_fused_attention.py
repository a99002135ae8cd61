"""Attention by single kernels, and what a fused kernel leaves of it."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import pytest

from gpu_profile.analysis.replay.edits.kernels.attention_kernels import (
    AttentionKernels,
    find_attention,
    find_letter,
)
from gpu_profile.analysis.replay.edits.kernels.fused_attention import fuse_attention
from gpu_profile.analysis.replay.weights import Weights
from tests.unit.analysis.replay.small_runs import make_steps
from tests.unit.analysis.replay.test_plan import predict_us

Kernels = Sequence[tuple[str, float]]

NATIVE = "void at::native::"
WARP = "void <unnamed>::softmax_warp_forward<float, float, float, (int)11, (bool){}, (bool)0>(T2 *)"
PRODUCT = ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", 150)
OTHER = ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT", 80)
SCALAR = ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_ffma_kernel__5x_cublas", 1000)
UNALIGNED = (
    "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_tn_align1>(T1::Params)",
    400,
)
VECTOR = (
    "std::enable_if<T7, void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, float, "
    "cublasGemvParamsEx<int, cublasGemvTensorStridedBatched<__nv_bfloat16>, float>>(T13)",
    500,
)
SPLIT = ("void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float>(T1)", 5)
NORM = (f"{NATIVE}vectorized_layer_norm_kernel<float, float>(int)", 30)
COPY = (f"{NATIVE}elementwise_kernel<128, 4, {NATIVE}direct_copy_kernel_cuda>(int)", 20)
LONG_COPY = (COPY[0], 1000)
CAST = (f"{NATIVE}vectorized_elementwise_kernel<8, bfloat16_copy_kernel_cuda>(int)", 300)
MASK = (f"{NATIVE}elementwise_kernel<128, 4, {NATIVE}masked_fill_kernel>(int)", 700)
DROPOUT = (f"{NATIVE}fused_dropout_kernel_vec<float, float, unsigned int, 1, 8, bool>()", 400)
SOFTMAX, LOG_SOFTMAX = (WARP.format(0), 600), (WARP.format(1), 600)
BLOCKS = (f"{NATIVE}cunn_SoftMaxForward<4, float, float, float, SoftMaxForwardEpilogue>()", 600)
LOG_BLOCKS = (BLOCKS[0].replace("SoftMaxForwardEpilogue", "LogSoftMaxForwardEpilogue"), 600)
SHORT_SOFTMAX = (BLOCKS[0], 8)
CONVOLUTION = ("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_nhwc_kernel__5x_cudnn", 150)
SPATIAL = (f"{NATIVE}cunn_SpatialSoftMaxForward<float, float, float, int>()", 600)
BACKWARD = (f"{NATIVE}cunn_SoftMaxBackwardSmem<4, float, float, SoftMaxBackwardEpilogue>()", 700)
MAX = (f"{NATIVE}reduce_kernel<512, 1, {NATIVE}ReduceOp<float, {NATIVE}MaxOps<float>>>()", 200)
EXP = (f"{NATIVE}vectorized_elementwise_kernel<4, {NATIVE}exp_kernel_cuda>(int)", 300)
SUM = (f"{NATIVE}reduce_kernel<512, 1, {NATIVE}ReduceOp<float, sum_functor<float>>>()", 200)
DIVIDE = (f"{NATIVE}elementwise_kernel<128, 4, DivFunctor<float>>(int)", 400)
TOP = (f"{NATIVE}sbtopk::gatherTopK<float, unsigned int, 2, false>()", 50)

FORWARD = (OTHER, COPY, COPY, PRODUCT, MASK, SOFTMAX, CAST, COPY, PRODUCT, COPY, OTHER, NORM)
BY_HAND = (OTHER, PRODUCT, MAX, EXP, SUM, DIVIDE, PRODUCT, OTHER, NORM)
PASSES_BACK = (NORM, OTHER, PRODUCT, PRODUCT, DROPOUT, BACKWARD, MASK, PRODUCT, PRODUCT, NORM)
ONE_WORD = (OTHER, LONG_COPY, LONG_COPY, VECTOR, SHORT_SOFTMAX, VECTOR, OTHER, NORM)


def find(kernels: Kernels, streams: Sequence[int] = ()) -> AttentionKernels:
    names = list(dict(kernels))
    code = np.array([names.index(name) for name, _ in kernels])
    length = np.array([1_000 * us for _, us in kernels])
    stream = np.array(streams or [7] * len(kernels))
    letters = [find_letter(name) for name in names]
    return find_attention(letters, code, stream, np.cumsum(length) - length, length)


def list_rows(kernels: AttentionKernels) -> dict[str, list[int]]:
    parts = ((part.name, getattr(kernels, part.name)) for part in fields(kernels))
    return {
        name: sorted(rows.tolist())
        for name, rows in parts
        if len(rows) and name != "joined_products"
    }


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        (FORWARD, {"forward": [3, 8], "scores": [4, 5, 6], "copies": [1, 2, 7, 9]}),
        (BY_HAND, {"forward": [1, 6], "scores": [2, 3, 4, 5]}),
        (PASSES_BACK, {"backward": [2, 3, 7, 8], "scores": [4, 5, 6]}),
        (ONE_WORD, {"vector": [3, 5], "scores": [4], "copies": [1, 2]}),
        (
            (NORM, PRODUCT, SPLIT, BLOCKS, SCALAR, NORM),
            {"forward": [1, 4], "scores": [3], "copies": [2]},
        ),
    ],
    ids=["forward", "softmax by hand", "backward", "a word alone", "fp32 and a split product"],
)
def test_a_softmax_between_two_products_is_attention(
    kernels: Kernels, expected: dict[str, list[int]]
) -> None:
    assert list_rows(find(kernels)) == expected


@pytest.mark.parametrize(
    "kernels",
    [
        (PRODUCT, LOG_SOFTMAX, PRODUCT),
        (PRODUCT, LOG_BLOCKS, PRODUCT),
        (PRODUCT, SPATIAL, PRODUCT),
        (PRODUCT, SOFTMAX, MASK, BACKWARD, PRODUCT),
        (PRODUCT, SOFTMAX, TOP, PRODUCT),
        (PRODUCT, SOFTMAX, NORM, PRODUCT),
        (PRODUCT, SHORT_SOFTMAX, PRODUCT),
        ((OTHER[0], 6_000), SOFTMAX, PRODUCT),
        (PRODUCT, SOFTMAX, (OTHER[0], 10)),
        (VECTOR, SOFTMAX, VECTOR),
        (CONVOLUTION, SOFTMAX, PRODUCT),
        (PRODUCT, SUM, MASK, PRODUCT),
        (PRODUCT, EXP, SUM, PRODUCT),
    ],
    ids=[
        *("a loss", "a loss in blocks", "over channels", "a loss by hand", "a router", "a norm"),
        *(
            "a gate",
            "a head of classes",
            "an expert",
            "one row",
            "a convolution",
            "a sum",
            "a loss of a VAE",
        ),
    ],
)
def test_another_softmax_is_no_attention(kernels: Kernels) -> None:
    assert list_rows(find((OTHER, NORM, *kernels, NORM))) == {}


def test_a_chain_is_on_one_stream() -> None:
    kernels = (PRODUCT, BACKWARD, SOFTMAX, SOFTMAX, PRODUCT, PRODUCT)
    attention = find(kernels, streams=(7, 13, 7, 13, 7, 13))
    assert list_rows(attention) == {"forward": [0, 4], "scores": [2]}


@pytest.mark.parametrize(
    ("kernels", "least_us", "left_us", "most_us"),
    [
        (FORWARD, 620, 370, 280),
        (PASSES_BACK, 1_340, 740, 500),
        ((NORM, SCALAR, SOFTMAX, SCALAR, NORM), 2_060, 1_260, 660),
        (ONE_WORD, 2_190, 440, 315),
        ((UNALIGNED, NORM, UNALIGNED, SOFTMAX, UNALIGNED, NORM), 720, 580, 520),
    ],
    ids=["forward", "backward", "without tensor cores", "a word alone", "an odd number of words"],
)
def test_a_fused_kernel_leaves_a_part_of_the_products(
    kernels: Kernels, least_us: float, left_us: float, most_us: float
) -> None:
    graph, change = make_steps(kernels), fuse_attention()
    assert change.bounds is not None
    applied = (change.bounds[0], change.apply, change.bounds[1])
    predicted = [predict_us(graph, each) for each in applied]
    assert predicted == pytest.approx([least_us, left_us, most_us], rel=0.002)


def test_a_fused_kernel_is_launched_once_forward_and_twice_backward() -> None:
    assert find(FORWARD).joined_products.tolist() == [8]
    assert find(PASSES_BACK).joined_products.tolist() == [7, 8]


def test_a_graph_that_holds_attention_is_still_launched() -> None:
    """Of a CUDA graph with other kernels only those of attention are gone."""
    graph = make_steps(FORWARD, launches=1)
    weights = fuse_attention().apply(graph, Weights.of(graph))
    assert (weights.lag == graph.edges.lag).all()
    assert predict_us(graph, fuse_attention().apply) == 370
