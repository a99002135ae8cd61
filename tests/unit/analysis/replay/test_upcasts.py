"""Products that a program in 16 bits computes in fp32, between casts."""

from collections.abc import Sequence

import pytest

from gpu_profile.analysis.replay.edits.kernels.tensor_cores import use_tensor_cores
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from tests.unit.analysis.replay.small_runs import make_steps
from tests.unit.analysis.replay.test_plan import predict_us

HALF = "nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_TNT"
SCALAR = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_ffma_kernel__5x_cublas"
UP = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::Tensor"
    "IteratorBase &), at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1>>()"
)
DOWN = "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda>()"
SOFTMAX = "void softmax_warp_forward<float, float, float, 10, false, false>(float *)"
GATE = "void at::native::vectorized_elementwise_kernel<4, at::native::sigmoid_kernel_cuda>()"
US = {HALF: 100, SCALAR: 1_000, UP: 60, DOWN: 180, SOFTMAX: 260, GATE: 260}


def make_attention(kernels: Sequence[str]) -> RunGraph:
    return make_steps([(name, US[name]) for name in kernels])


UPCAST = (HALF, UP, UP, SCALAR, SOFTMAX, DOWN, HALF)


@pytest.mark.parametrize(
    ("kernels", "least_us", "left_us", "most_us"),
    [
        (UPCAST, 1_260, 427, 398),
        ((HALF, UP, SCALAR, SOFTMAX, DOWN, DOWN, HALF), 1_380, 427, 398),
        ((HALF, UP, UP, SCALAR, GATE, DOWN, HALF), 1_260, 954, 398),
        ((HALF, UP, SCALAR, SOFTMAX, DOWN, HALF), 1_200, 894, 836),
        ((HALF, UP, UP, SCALAR, SOFTMAX, HALF), 1_080, 774, 716),
        ((SCALAR, UP, UP, SCALAR, SOFTMAX, DOWN), 1_560, 947, 831),
    ],
    ids=["upcast", "backward", "no attention", "one operand", "result stays", "a program in fp32"],
)
def test_products_between_casts_stay_in_16_bits_at_the_most_or_in_attention(
    kernels: Sequence[str], least_us: float, left_us: float, most_us: float
) -> None:
    """The peak of bfloat16 is 14.8 times that of fp32, and 70 % of it 10.3; that of TF32 is 7.4."""
    graph, change = make_attention(kernels), use_tensor_cores()
    assert change.bounds is not None
    assert change.describe is not None
    applied = (change.bounds[0], change.apply, change.bounds[1])
    predicted = [predict_us(graph, each) for each in applied]
    assert predicted == pytest.approx([least_us, left_us, most_us], rel=0.002)
    told = change.describe(graph)
    casts_ms = sum(US[name] for name in kernels if name in (UP, DOWN)) / 1e3
    expected = "1 of these products a step stand between casts from and to 16 bits, which take"
    assert told.startswith(f"{expected} {casts_ms:.2f} ms") if most_us == 398 else not told
