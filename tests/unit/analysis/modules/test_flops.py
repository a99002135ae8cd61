"""FLOPs by torch's formulas, and the rates and MFU that follow from them."""

from pathlib import Path

import pytest

from gpu_profile.analysis.activity.nvtx_ranges import load_ranges
from gpu_profile.analysis.modules.flops import count_flops, find_conv_outputs
from gpu_profile.analysis.modules.op_shapes import OpShapes, parse_op
from gpu_profile.analysis.modules.peaks import find_format, find_peaks
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.by_name import OURS
from gpu_profile.formats.table_formats import to_text
from gpu_profile.table import Table
from tests.unit.analysis.synthetic import Rank, ranks_of

CONV_BACKWARD = (
    "aten::convolution_backward, sizes = [[8, 64, 16, 16], [8, 3, 32, 32], [64, 3, 7, 7]]"
)


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        ("aten::mm, sizes = [[8, 16], [16, 32]]", 8192),
        ("PyTorch:aten::mm, sizes = [[8, 16], [16, 32]]", 8192),
        ("aten::addmm, sizes = [[32], [8, 16], [16, 32], [], []]", 8192),
        ("aten::bmm, sizes = [[4, 8, 16], [4, 16, 32]]", 32768),
        ("aten::baddbmm, sizes = [[4, 8, 32], [4, 8, 16], [4, 16, 32], [], []]", 32768),
        (
            "aten::_scaled_dot_product_flash_attention, "
            "sizes = [[2, 4, 128, 64], [2, 4, 256, 64], [2, 4, 256, 32], [], [], [], []]",
            50331648,
        ),
        (
            "aten::_flash_attention_forward, "
            "sizes = [[2, 128, 4, 64], [2, 256, 4, 64], [2, 256, 4, 32]]",
            50331648,
        ),
        (
            "aten::_scaled_dot_product_cudnn_attention_backward, "
            "sizes = [[2, 4, 128, 32], [2, 4, 128, 64], [2, 4, 256, 64], [2, 4, 256, 32]]",
            134217728,
        ),
        ("aten::convolution, sizes = [[8, 3, 32, 32], [64, 3, 7, 7], [64], [], []]", 38535168),
        (CONV_BACKWARD, 77070336),
        ("aten::add, sizes = [[8, 16], [8, 16]]", 0),
        ("aten::mm, sizes = [[8], [16, 32]]", None),
        ("aten::mm, sizes = [[[8, 16], [16, 32]]]", None),
        ("aten::convolution, sizes = [[9, 3, 32, 32], [64, 3, 7, 7]]", None),
    ],
)
def test_the_formulas_are_those_of_torch(text: str, flops: int | None) -> None:
    """The numbers are what torch 2.11's torch.utils.flop_counter returns for these shapes."""
    op, backward = parse_op(text), parse_op(CONV_BACKWARD)
    assert op is not None
    assert backward is not None
    assert count_flops(op, find_conv_outputs([backward])) == flops


@pytest.mark.parametrize(
    "text", ["aten::mm", "aten::mm, sizes = [[8", "step", "aten::mm, sizes = " + "[" * 9000]
)
def test_what_is_no_operator_with_shapes(text: str) -> None:
    assert parse_op(text) is None


@pytest.mark.parametrize(
    ("gpu", "number_format", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", "bf16", 312),
        ("NVIDIA H100 80GB HBM3", "bf16", 989.5),
        ("NVIDIA H100 PCIe", "tf32", 378),
        ("NVIDIA H200", "fp8", 1979),
        ("NVIDIA H200 NVL", "fp16", 835.5),
        ("NVIDIA B200", "bf16", 2250),
        ("NVIDIA A100-SXM4-80GB", "fp8", None),
        ("NVIDIA RTX 6000", "bf16", None),
    ],
)
def test_peaks_are_dense(gpu: str, number_format: str, peak: float | None) -> None:
    assert find_peaks(gpu).get(number_format) == peak


@pytest.mark.parametrize(
    ("kernel", "number_format"),
    [
        ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT", "bf16"),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_TNN", "fp16"),
        ("nvjet_sm90_hsh_320x128_64x3_1x2_h_bz_coopB_NNT", "fp16"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "bf16"),
        ("nvjet_sm100_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT", "fp8"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", "bf16"),
        ("sm90_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize128x128x64_warpgroupsize1x1x1", "fp16"),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize2x1x1", "tf32"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_32x3_tn_align4>(T1)", "tf32"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(T1)", "fp32"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x32_16x4_nn_align1>(T1)", "fp64"),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, cutlass::bfloat16_t>>", "bf16"),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(AttentionKernel<float>::Params)", "tf32"),
        ("triton_tem_fused_mm_0", ""),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x64", ""),
    ],
)
def test_the_format_of_a_kernel(kernel: str, number_format: str) -> None:
    assert find_format(kernel) == number_format


GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
M, K, N = 4096, 4096, 1024
GEMM_FLOPS = 2 * M * K * N
STEPS, STEADY, AUTOGRAD = 5, 4, 7


def matmul(rank: Rank, number: int, us: float) -> None:
    """torch's range of a matrix product, which calls another one, and its kernel."""
    outer = rank.now
    rank.work(0.5)
    start = rank.now
    rank.kernel(us, GEMM)
    sizes = f"sizes = [[{M}, {K}], [{K}, {N}]]"
    rank.range(f"aten::mm, op_id = {number + 1}, {sizes}, input_op_ids = [[1, 0]]", start)
    rank.range(f"aten::matmul, seq = {number}, op_id = {number}, {sizes}", outer)


def train(path: Path, marked: bool = True) -> Path:
    """A module of one matrix product: forward once, again in the backward pass, backward twice."""
    (rank,) = ranks_of(1)
    for step in range(STEPS):
        begin = rank.now
        rank.work(1)
        start = rank.now
        matmul(rank, step, 100)
        rank.mark("forward fc|Linear|m.py:3", start)
        start = rank.now
        rank.lane = AUTOGRAD
        inner = rank.now
        matmul(rank, step, 100)
        if marked:
            rank.mark("forward fc|Linear|m.py:3", inner)
        inner = rank.now
        matmul(rank, step, 100)
        matmul(rank, step, 100)
        rank.mark("backward fc|Linear|m.py:3", inner)
        rank.lane = 0
        rank.mark("backward", start)
        rank.kernel(100, "elementwise_kernel")
        rank.work(50)
        rank.synchronize()
        rank.mark("step", begin, step)
    return rank.recording.save(path)


def cells(table: Table, row: str) -> dict[str, object]:
    (chosen,) = [cells for cells in table.rows if cells[0] == row]
    return {column.name: cell for column, cell in zip(table.columns, chosen, strict=True)}


def test_rates_and_mfu(tmp_path: Path) -> None:
    with Database.open(train(tmp_path / "run.sqlite")) as database:
        by_module = OURS["module_flops"].table(database)
        by_class = OURS["module_flops"].table(database, scope=Scope(by="kernel"))
        steps = OURS["step_sum"].table(database)
    module = cells(by_module, "fc")
    assert module["Forward"] == pytest.approx(STEADY * GEMM_FLOPS / 1e12)
    assert module["Backward"] == pytest.approx(2 * STEADY * GEMM_FLOPS / 1e12)
    assert module["Recomputed"] == pytest.approx(STEADY * GEMM_FLOPS / 1e12)
    assert module["Time"] == STEADY * 4 * 100_000
    assert module["Rate"] == pytest.approx(3 * GEMM_FLOPS / 400_000 / 1e3)
    assert (module["Format"], module["Peak"]) == ("bf16", pytest.approx(989.5))
    assert module["MFU"] == pytest.approx(100 * 3 * GEMM_FLOPS / 400_000 / 989.5e3, abs=0.01)
    assert cells(by_class, "GEMM")["Time"] == STEADY * 4 * 100_000
    step = cells(by_module, "(step, as recorded)")
    (mean,), (count,) = steps.column("Avg"), steps.column("Steps")
    assert (count, step["Time"]) == (STEADY, pytest.approx(STEADY * float(mean or 0)))
    assert step["MFU"] < module["MFU"]  # type: ignore[operator]


def test_kernels_of_unknown_flops_have_a_row_with_their_share(tmp_path: Path) -> None:
    """A product of a replayed graph or of Triton, and a convolution without its backward."""
    (rank,) = ranks_of(1)
    for step in range(STEPS):
        begin = rank.now
        rank.work(1)
        matmul(rank, step, 100)
        rank.kernel(150, "triton_tem_fused_mm_0")
        start = rank.now
        rank.work(0.5)
        rank.kernel(50, "sm90_xmma_fprop_implicit_gemm_bf16bf16")
        sizes = "sizes = [[8, 3, 32, 32], [64, 3, 7, 7]]"
        rank.range(f"aten::convolution, seq = 1, op_id = 9, {sizes}", start)
        rank.kernel(200, "elementwise_kernel")
        rank.mark("step", begin, step)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        unknown = cells(OURS["module_flops"].table(database), "(unknown FLOPs)")
    assert unknown["Time"] == STEADY * 200_000
    assert unknown["Share"] == pytest.approx(40)
    assert unknown["Rate"] is None
    assert unknown["MFU"] is None


def test_without_shapes_the_flag_is_named(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    rank.kernel(5)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        text = to_text(OURS["module_flops"].table(database))
    assert text == (
        "module_flops: the report has no shapes of operators: record with --annotate ops\n"
    )


def test_calls_of_an_operator_have_one_name(tmp_path: Path) -> None:
    """Each call has numbers of its own, which would make every call a name."""
    with Database.open(train(tmp_path / "run.sqlite")) as database:
        ranges = load_ranges(database, 1 << 48 | 100 << 24)
    shapes = f"sizes = [[{M}, {K}], [{K}, {N}]]"
    assert {name for name in ranges.names if "aten" in name} == {
        f"aten::matmul, {shapes}",
        f"aten::mm, {shapes}",
    }
    assert len(ranges.of_user().start) == 0


def test_shapes_of_an_operator() -> None:
    text = "aten::add, sizes = [[8, 1], [], [[1], [2]], [-1]]"
    assert parse_op(text) == OpShapes("aten::add", ((8, 1), (), (), ()))
