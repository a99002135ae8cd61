"""Memory allocated in each step, and matrix products in a format without tensor cores."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpu_profile.analysis.findings.evidence.hidden_kernels import HIDDEN
from gpu_profile.analysis.findings.facts.kernel_names import KernelTimes
from gpu_profile.analysis.findings.rules.gpu.no_tensor_cores import RULE, ScalarProducts
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.kernels.tensor_cores import is_scalar
from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports
from tests.unit.analysis.findings.test_causes import judged
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

SCALAR = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_ffma_execute_kernel__5x_cublas"


def free_and_allocate(rank: Rank) -> None:
    """cudaFree waits for the GPU's 8 ms of work, and leaves it idle for 2 ms."""
    rank.call("cudaFree_v3020", max(rank.free - rank.now, 0) / 1000 + 600)
    rank.call("cudaMalloc_v3020", 1400)


def test_allocations_in_each_step_are_named_with_their_idle_time(tmp_path: Path) -> None:
    findings = judged(Training(ranks=1, after=free_and_allocate).record(), tmp_path)
    (finding,) = [finding for finding in findings if finding.kind == "allocation"]
    assert (finding.ranks, finding.cause) == ((0,), "calls")
    # The mean leaves out what one of twelve steps idles above the others.
    assert finding.at_most_ms == pytest.approx(2, abs=0.2)
    assert any("cudaMalloc, 1.0 times a step" in line for line in finding.evidence)
    assert any("cudaFree, 1.0 times a step" in line for line in finding.evidence)
    assert "cudaFree also waits" in finding.evidence[0]


def test_a_pool_that_takes_new_memory_in_each_step_is_named(tmp_path: Path) -> None:
    def allocate(rank: Rank) -> None:
        rank.call("cudaFreeAsync_v11020", 2)
        rank.call("cudaStreamSynchronize_v3020", max(rank.free - rank.now, 0) / 1000 + 600)
        rank.call("cudaMallocAsync_v11020", 1400)

    findings = judged(Training(ranks=1, after=allocate).record(), tmp_path)
    (finding,) = [finding for finding in findings if finding.kind == "allocation"]
    assert any("cudaMallocAsync, 1.0 times a step" in line for line in finding.evidence)
    assert "cudaFree also waits" not in finding.evidence[0]


def test_allocations_at_the_start_are_no_finding(tmp_path: Path) -> None:
    training = Training(ranks=1, before=free_and_allocate)
    assert judged(training.record(), tmp_path) == ()


def test_a_device_with_an_unknown_gpu_gains_nothing() -> None:
    """Beside a known one of the same rank: a program may use two GPUs."""
    time = np.full(4, 6_000_000)
    fact = ScalarProducts(KernelTimes(time, {}), KernelTimes(0 * time, {}), ratio=0.0)
    facts: Any = SimpleNamespace(states=SimpleNamespace(steps=()))
    assert RULE.time_ms(View(facts, facts, 0, 4, fact), "fp32") == 0


def test_fp32_products_are_named_with_the_range_of_what_tensor_cores_gain(tmp_path: Path) -> None:
    def product(rank: Rank) -> None:
        rank.kernel(600, SCALAR)
        rank.kernel(40, "conv2d_c1_k1_nhwc_kernel<float>")

    training = Training(ranks=1, layers=10, layer=product)
    (finding,) = judged(training.record(), tmp_path)
    assert (finding.kind, finding.ranks, finding.cause) == ("no_tensor_cores", (0,), "fp32")
    # 494.5 over 67 TFLOP/s is 7.4 times; 70 % of it is 5.2 times.
    expected = [6 * (1 - 1 / times) for times in (5.17, 2, 7.38)]
    assert finding.range_ms is not None
    assert [finding.replayed_ms, *finding.range_ms] == pytest.approx(expected, rel=0.02)
    assert re.fullmatch(r"4\.\d\d ms a step \(\d\.\d\d to 5\.\d\d\)", finding.describe_cost())
    assert finding.as_json()["ms_per_step_range"] == [round(ms, 3) for ms in finding.range_ms]
    (name,) = re.findall(r"most in (\S+)$", finding.evidence[0])
    assert (name[:9], name[-6:], len(name)) == (SCALAR[:9], SCALAR[-6:], 60)
    assert any("0.40 ms a step in depthwise convolutions" in line for line in finding.evidence)


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        (SCALAR, True),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(T1::Params)", True),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_execute", False),
        ("nvjet_sm90_tst_128x256_64x4_1x2_h_bz_coopA_TNT", False),
        ("void DSE::regular_fft_pad<(int)0, (int)1, (int)128, float, float, float2>(T9 *)", True),
        ("void pointwise_mult_and_sum_complex<float2, (int)8, (int)4>(T1 *, T1 *)", True),
        ("void regular_fft_factor<(unsigned int)128, unsigned int, float>(T9)", False),
        (
            "void gemmSN_TN_kernel<float, 128, 16, cublasGemvTensorStridedBatched<float const>>()",
            False,
        ),
        ("conv2d_c1_k1_nhwc_kernel<float>", False),
        ("void at::native::conv_depthwise2d_forward_kernel<3, float>(int)", False),
        ("void at::native::vectorized_elementwise_kernel<4, float>(int)", False),
    ],
)
def test_scalar_products_are_told_by_their_names(name: str, scalar: bool) -> None:
    assert is_scalar(name) == scalar


@pytest.mark.parametrize("graph_us", [20_000, 1_000])
def test_kernels_inside_graphs_that_fill_the_step_are_not_judged(
    tmp_path: Path, graph_us: int
) -> None:
    training = Training(ranks=1, after=lambda rank: rank.graph(graph_us))
    with Database.open(training.save(tmp_path)) as database:
        diagnosis = diagnose_reports(database)
    assert (HIDDEN in diagnosis.unjudged) == (graph_us == 20_000)
