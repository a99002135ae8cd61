"""How much of a GPU its kernels use: means of the samples that fall into them, and blocks."""

import sqlite3
from contextlib import closing
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
from tests.reading import diagnose_reports
from tests.unit.analysis.findings.test_causes import every
from tests.unit.analysis.scenarios import Training
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


FEW = "measure(float const*, float*)"


def save_with_grids(training: Training, folder: Path, blocks: int) -> Path:
    """The report on a GPU of 132 multiprocessors; FEW has so many blocks, all others 132, each of
    512 threads.
    """
    path = training.save(folder)
    with closing(sqlite3.connect(path)) as database, database:
        for side in ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"):
            database.execute(
                f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN {side} INT DEFAULT 1"
            )
        name = "(SELECT value FROM StringIds WHERE id = shortName)"
        grid = f"CASE {name} WHEN '{FEW}' THEN {blocks} ELSE 132 END"
        database.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = {grid}, blockX = 512")
        database.execute("ALTER TABLE TARGET_INFO_GPU ADD COLUMN smCount INT DEFAULT 132")
    return path


@pytest.mark.parametrize("blocks", [8, 66])
def test_a_long_kernel_of_few_blocks_is_named_with_what_more_blocks_gain(
    blocks: int, tmp_path: Path
) -> None:
    """3 ms by 8 blocks on 132 multiprocessors: the ratio is 16.5, and half of it 8.25."""
    training = Training(ranks=1, after=lambda rank: rank.kernel(3_000, FEW))
    with Database.open(save_with_grids(training, tmp_path, blocks)) as database:
        diagnosis = diagnose_reports(database)
    if blocks == 66:
        assert diagnosis.findings == ()
        return
    (finding,) = diagnosis.findings
    assert (finding.kind, finding.ranks, finding.cause) == ("unused_gpu", (0,), "few_blocks")
    assert finding.range_ms is not None
    expected = [3 * (1 - 1 / times) for times in (8.25, 2, 57.75)]
    assert [finding.replayed_ms, *finding.range_ms] == pytest.approx(expected, rel=0.01)
    assert finding.evidence[0].endswith(f": {FEW} (8 blocks, 3000 us)")
    assert not isinstance(diagnosis.plan, str)
    assert [item.text for item in diagnosis.plan.items] == ["small grids"]


def test_a_kernel_of_few_blocks_in_each_twelfth_step_counts_in_full(tmp_path: Path) -> None:
    """As of a loop whose parts are found as steps: 12 ms in each twelfth one are 1 ms a step."""
    late = every(12, lambda rank: rank.kernel(12_000, FEW))
    training = Training(ranks=1, steps=61, layers=10, after=late)
    with Database.open(save_with_grids(training, tmp_path, 8)) as database:
        (finding,) = diagnose_reports(database).findings
    assert (finding.kind, finding.cause) == ("unused_gpu", "few_blocks")
    assert finding.replayed_ms == pytest.approx(1 - 1 / 8.25, rel=0.1)
