"""How much of a GPU its kernels use: means of the samples that fall into them."""

from pathlib import Path

import pytest

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.findings.rules.gpu.unused_gpu import (
    FEWEST_SAMPLES,
    NO_USE,
    GpuUse,
    measure_gpu_use,
)
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.unit.analysis.synthetic import MS, Rank, Recording, ranks_of

GEMM, OTHER = "sm90_xmma_gemm_bf16_tn", "vectorized_elementwise_kernel"
SM_ACTIVE, CLOCK = "SMs Active [Throughput %]", "GPC Clock Frequency [MHz]"


def recorded() -> Rank:
    """A GEMM of 40 ms, and after a pause of 40 ms another kernel of 40 ms."""
    (rank,) = ranks_of(1)
    rank.kernel(40_000, GEMM)
    rank.synchronize()
    rank.work(40_000)
    rank.kernel(40_000, OTHER)
    rank.synchronize()
    return rank


def add_samples(recording: Recording, name: str, gpu: int, step: int = MS) -> None:
    """A sample each ms: 90 in the GEMM's 40 ms, 30 in the other kernel, 0 in the pause."""
    (_, first_end, *_), (second, second_end, *_) = recording.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    number = len(recording.rows["TARGET_INFO_GPU_METRICS"])
    recording.add("TARGET_INFO_GPU_METRICS", 1 << 48, number, name)
    for time in range(0, int(str(second_end)), step):
        inside = 90 if time < int(str(first_end)) else 30 if time >= int(str(second)) else 0
        recording.add("GPU_METRICS", time, (1 << 48) | gpu, number, inside)


def use_of(recording: Recording, folder: Path) -> GpuUse:
    with Database.open(recording.save(folder / "run.sqlite")) as database:
        (activity,) = activities_of(database, Scope())
        return measure_gpu_use(activity, database)


def test_means_are_of_the_time_in_which_kernels_run(tmp_path: Path) -> None:
    recording = recorded().recording
    add_samples(recording, SM_ACTIVE, gpu=0)
    use = use_of(recording, tmp_path)
    assert use.compute == {"SMs active": pytest.approx(60, abs=2)}
    assert use.gemm == {"SMs active": pytest.approx(90)}
    assert use.gemm_share == pytest.approx(1 / 3, abs=0.01)
    assert use.line().startswith("while kernels run: SMs active ")


def test_too_few_samples_have_no_mean(tmp_path: Path) -> None:
    recording = recorded().recording
    add_samples(recording, SM_ACTIVE, gpu=0, step=40 * MS // (FEWEST_SAMPLES - 1))
    use = use_of(recording, tmp_path)
    assert (set(use.compute), use.gemm) == ({"SMs active"}, {})


def test_a_gpu_is_found_by_its_number_on_the_host(tmp_path: Path) -> None:
    """CUDA_VISIBLE_DEVICES=5 makes GPU 5 the process's device 0."""
    recording = recorded().recording
    recording.rows["TARGET_INFO_CUDA_DEVICE"] = [(5, 0, 100)]
    add_samples(recording, SM_ACTIVE, gpu=5)
    assert "SMs active" in use_of(recording, tmp_path).compute


@pytest.mark.parametrize(("name", "gpu"), [(SM_ACTIVE, 1), (CLOCK, 0)])
def test_samples_of_another_gpu_or_of_its_clock_tell_nothing(
    name: str, gpu: int, tmp_path: Path
) -> None:
    recording = recorded().recording
    add_samples(recording, name, gpu)
    assert use_of(recording, tmp_path) == NO_USE
    assert NO_USE.line() == ""
