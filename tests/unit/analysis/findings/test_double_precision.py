"""Kernels of 64-bit floats, which move twice the bytes of 32 bits."""

from pathlib import Path

import pytest

from gpu_profile.analysis.replay.edits.kernels.number_types import DOUBLE, find_float, find_left
from tests.unit.analysis.findings.test_causes import judged
from tests.unit.analysis.findings.test_layouts import record
from tests.unit.analysis.findings.test_unfused_elementwise import diagnose
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

NATIVE = "void at::native::"
ADD = f"{NATIVE}vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<double>>(int)"
ADD_FLOATS = ADD.replace("double", "float")
CAST = (
    f"{NATIVE}unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase"
    " &)::[lambda() (instance 3)]::operator ()() const::[lambda() (instance 7)]::operator ()() "
    "const::[lambda(double) (instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)"
)
SUM = (
    f"{NATIVE}reduce_kernel<(int)512, (int)1, at::native::ReduceOp<double, at::native::func_wrapp"
    "er_t<double, at::native::sum_functor<double, double, double>>, unsigned int, double>>(T3)"
)
SUM_OF_FLOATS = SUM.replace("double", "float")
FORMULA = [
    ADD.replace("CUDAFunctor_add", f"{each}Functor") for each in ("Sin", "Exp", "Mul", "Div")
]
MEAN_OF_FLOATS = (
    f"{NATIVE}reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::MeanOps<float"
    ", double, float, double>, unsigned int, float, (int)4, (int)4>>(T3)"
)
ADAM_OF_FLOATS = (
    f"{NATIVE}<unnamed>::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<(int)4>, "
    "FusedAdamMathFunctor<float, (int)4>, const float *, double, double, double>(T1, T2, T3...)"
)
NORM_OF_FLOATS = (
    f"{NATIVE}vectorized_elementwise_kernel<(int)4, at::native::batch_norm_calc_invstd(const "
    "at::Tensor &, double)::[lambda() (instance 1)]::operator ()() const::[lambda(float) "
    "(instance 1)], std::array<char *, (unsigned long)2>>(int, T2, T3)"
)
INDEX = f"{NATIVE}vectorized_elementwise_kernel<(int)2, at::native::CUDAFunctor_add<long>>(int)"
FOURIER = (
    "void regular_fft<(unsigned int)768, EPT<(unsigned int)6, (unsigned int)8>, (padding_t)14, "
    "(layout_t)1, unsigned int, double, HostConfigPlaceholder>(kernel_arguments_t<T9>)"
)
SORT = (
    "void cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<policy_hub<double, int>, double>"
)
VECTOR = "void gemv2T_kernel_val<int, int, double, double, double, double, (int)128, (int)16>(T13)"
PRODUCT = "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_128x64_16x3_nn_align1>(T1::Params)"
PRODUCT_OF_HALVES = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"


@pytest.mark.parametrize(
    ("name", "left"),
    [
        *((name, 0.5) for name in (ADD, CAST, SUM, FOURIER, SORT, VECTOR)),
        ("cupy_multiply__float64_float_float64", 0.5),
        ("cupy_exp__complex128_complex128", 0.5),
        ("cupy_greater__float64_float64_bool", 9 / 17),
        ("cupy_copy__float64_float32", 8 / 12),
    ],
)
def test_a_name_tells_what_doubles_move(name: str, left: float) -> None:
    assert find_float(name) == DOUBLE
    assert find_left(name) == pytest.approx(left)


@pytest.mark.parametrize(
    "name",
    [
        *(ADD_FLOATS, MEAN_OF_FLOATS, ADAM_OF_FLOATS, NORM_OF_FLOATS, INDEX, PRODUCT_OF_HALVES),
        FOURIER.replace("double", "float"),
        "cupy_multiply__float_float32_float32",
        "cupy_add__int64_int64_int64",
        "relax(const float *, float *, double)",
        "step",
    ],
)
def test_indices_sums_and_numbers_of_other_kernels_are_no_doubles(name: str) -> None:
    assert find_float(name) != DOUBLE
    assert find_left(name) == 1


@pytest.mark.parametrize("name", [PRODUCT, "relax(const double *, double *, int)"])
def test_what_units_may_limit_is_not_shortened(name: str) -> None:
    assert find_float(name) == DOUBLE
    assert find_left(name) == 1


def test_reductions_of_cupy_count_where_all_else_is_double() -> None:
    assert [find_left("cupy_cub_mean_pass1", only) for only in (False, True)] == [1, 0.5]
    assert find_left("cupy_add__float32_float32_float32", has_only_doubles=True) == 1


def test_doubles_among_floats_are_told_with_half_of_their_time(tmp_path: Path) -> None:
    """Of each 602 us 302 are left; a product of doubles stays, and is named."""
    layer = ((602, ADD), (300, PRODUCT), (200, PRODUCT_OF_HALVES))
    (finding,) = judged(record(layer).record(), tmp_path)
    assert (finding.kind, finding.ranks, finding.cause) == ("double_precision", (0,), "mixed")
    assert finding.replayed_ms == pytest.approx(10 * 0.3, abs=0.02)
    assert finding.range_ms == pytest.approx((10 * 0.225, 10 * 0.36), abs=0.02)
    assert "6.02 of" in finding.evidence[0]
    assert "3.00 ms a step in matrix products" in finding.evidence[1]


def test_floats_are_not_told(tmp_path: Path) -> None:
    layer = ((600, MEAN_OF_FLOATS), (200, ADAM_OF_FLOATS), (200, PRODUCT_OF_HALVES), (300, INDEX))
    assert judged(record(layer).record(), tmp_path) == ()


def test_tiny_kernels_take_as_long_in_32_bits(tmp_path: Path) -> None:
    layer = ((2, ADD), (600, PRODUCT_OF_HALVES), (2, SUM), (300, PRODUCT_OF_HALVES))
    assert judged(record(layer).record(), tmp_path) == ()


@pytest.mark.parametrize(("other", "cause"), [(ADD_FLOATS, "mixed"), (SUM, "throughout")])
def test_a_trade_comes_after_a_smaller_cause(tmp_path: Path, other: str, cause: str) -> None:
    """A pause of 1 ms, which the GPU waits for, beside 3 ms that doubles cost."""

    def layer(rank: Rank) -> None:
        for length_us, name in ((602, ADD), (100, PRODUCT), (50, other), (100, PRODUCT)):
            rank.kernel(length_us, name)

    def wait(rank: Rank) -> None:
        rank.synchronize()
        rank.work(1000)

    training = Training(ranks=1, layers=10, layer=layer, data=wait)
    first, second, third = judged(training.record(), tmp_path)
    assert first.kind == "synchronization"
    assert first.cost_ms == pytest.approx(1, abs=0.05)
    assert (second.kind, second.cause) == ("double_precision", cause)
    assert second.cost_ms > 2 * first.cost_ms
    assert "the same loss as synchronization" in third.evidence[-1]


@pytest.mark.parametrize(("norm", "place"), [(SUM_OF_FLOATS, 0), (SUM, 1)])
def test_doubles_throughout_come_after_bounds(tmp_path: Path, norm: str, place: int) -> None:
    """A chain of four kernels of 90 us would be one; half of the doubles is more."""
    chain = tuple((90, name) for name in FORMULA)
    layer = ((602, SUM), (100, PRODUCT), *chain, (100, PRODUCT), (50, norm), (100, PRODUCT))
    findings = diagnose(record(layer), tmp_path)
    assert len(findings) == 2
    finding, other = findings[place], findings[1 - place]
    assert (finding.kind, other.kind) == ("double_precision", "unfused_elementwise")
    assert finding.cost_ms > other.cost_ms
    wants = "where the program wants these digits" in finding.evidence[-1]
    assert wants == (finding.cause == "throughout") == (norm == SUM)
