"""Matrices whose rows begin at odd addresses, and images whose channels are first."""

from pathlib import Path

import pytest

from gpu_profile.analysis.replay.edits.kernels.unaligned_products import find_left
from tests.unit.analysis.findings.test_causes import judged
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

ODD = "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_tn_align1>(T1::Params)"
ENGINES = "void cudnn::engines_precompiled::"
TO_LAST = f"{ENGINES}nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, (bool)0, (bool)1>(T1)"
TO_LAST_FOLDED = TO_LAST.replace("(bool)0", "(bool)1")
TO_FIRST = f"{ENGINES}nhwcToNchwKernel<__nv_bfloat16, __nv_bfloat16, float, (bool)1, (bool)0>(T1)"
NORM = "void at::native::batch_norm_backward_kernel<c10::BFloat16, float, float, int>(T1)"
NORM_LAST = "void at::native::batch_norm_backward_reduce_channels_last_kernel<(int)4>(T1)"
CUDNN_NORM = "void cudnn::bn_bw_1C11_singleread<float, (int)512, (bool)1, (int)1>(T1)"
DEPTHWISE = "void at::native::<unnamed>::conv_depthwise2d_backward_kernel<(int)3>(T1)"
GROUP_NORM = "void at::native::<unnamed>::GroupNormBackwardKernel<float>(T1)"


def record(layer: tuple[tuple[float, str], ...]) -> Training:
    """Ten layers of kernels: (us, name)."""

    def run(rank: Rank) -> None:
        for length_us, name in layer:
            rank.kernel(length_us, name)

    return Training(ranks=1, layers=10, layer=run)


@pytest.mark.parametrize(
    ("name", "left"),
    [
        (ODD, 0.18),
        ("cutlass_80_tensorop_f16_s16816gemm_f16_128x256_64x3_tn_align2", 0.35),
        ("cutlass_75_tensorop_s1688gemm_bf16_256x128_nt_align1", 0.18),
        ("cutlass_80_wmma_tensorop_s161616gemm_bf16_32x32_32x1_nn_align2", 0.35),
        ("cutlass_80_tensorop_s1688gemm_128x256_32x3_tn_align1", 0.4),
        ("cutlass_80_tensorop_s1688gemm_128x128_32x3_tn_align4", 1),
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_tn_align8", 1),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(T1::Params)", 1),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", 1),
        ("cutlass_80_tensorop_d884gemm_128x64_16x3_nn_align1", 1),
        ("cutlass_80_tensorop_c1688gemm_64x64_16x3_nn_align1", 1),
    ],
)
def test_a_name_tells_how_many_elements_a_product_loads(name: str, left: float) -> None:
    assert find_left(name) == left


def test_products_of_odd_sides_are_named_with_what_filled_ones_gain(tmp_path: Path) -> None:
    """Of each 600 us 18 % and 20 us are left."""
    (finding,) = judged(record(((600, ODD),)).record(), tmp_path)
    assert (finding.kind, finding.ranks, finding.cause) == ("unaligned_matmul", (0,), "rows")
    gain = 10 * 0.6 * 0.82 - 10 * 0.02
    assert finding.replayed_ms == pytest.approx(gain, abs=0.05)
    assert finding.range_ms is not None
    low, high = finding.range_ms
    assert low < gain < high
    assert "cutlass_75_tensorop_bf16" in finding.evidence[0]


@pytest.mark.parametrize("other", [TO_LAST, TO_FIRST])
def test_products_beside_transposes_of_images_may_be_convolutions(
    tmp_path: Path, other: str
) -> None:
    assert judged(record(((600, ODD), (100, other))).record(), tmp_path) == ()


def test_short_unaligned_products_gain_nothing(tmp_path: Path) -> None:
    training = record(((24, ODD), (24, ODD), (600, "nvjet_sm90_tst_256x128_64x4_1x2_h_bz")))
    assert judged(training.record(), tmp_path) == ()


@pytest.mark.parametrize(
    ("norm", "gain_us"),
    [
        (NORM, 0.65 * 400 + 150),
        (CUDNN_NORM, 0.35 * 400 + 150),
        (DEPTHWISE, None),
        (NORM_LAST, None),
        (GROUP_NORM, None),
    ],
)
def test_channels_first_cost_norms_and_transposes(
    tmp_path: Path, norm: str, gain_us: float | None
) -> None:
    """A layer: 100 us to channels last, 300 of a convolution, 50 back, 400 of a norm."""
    conv = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64"
    layer = ((100, TO_LAST), (300, conv), (50, TO_FIRST), (400, norm))
    findings = judged(record(layer).record(), tmp_path)
    assert [finding.kind for finding in findings] == ["channels_first"] * (gain_us is not None)
    if gain_us is not None:
        assert findings[0].replayed_ms == pytest.approx(10 * gain_us / 1e3, abs=0.1)
        assert "1.50 in transposes of cuDNN" in findings[0].evidence[0]


@pytest.mark.parametrize(
    "layer",
    [
        ((100, TO_LAST_FOLDED), (400, NORM)),
        ((400, NORM),),
        ((100, TO_LAST), (300, DEPTHWISE)),
    ],
)
def test_grouped_convolutions_and_one_without_the_other_are_not_told(
    tmp_path: Path, layer: tuple[tuple[float, str], ...]
) -> None:
    assert judged(record(layer).record(), tmp_path) == ()


def test_depthwise_convolutions_are_shorter_with_channels_last(tmp_path: Path) -> None:
    """Of 300 us 60 are left, beside 140 of a norm of 400 and none of a transpose of 100."""
    layer = ((100, TO_LAST), (300, DEPTHWISE), (400, NORM))
    (finding,) = judged(record(layer).record(), tmp_path)
    assert finding.replayed_ms == pytest.approx(10 * (0.24 + 0.26 + 0.1), abs=0.1)
