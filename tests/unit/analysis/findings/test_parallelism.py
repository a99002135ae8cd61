"""Pipelines, experts and groups of ranks, as NCCL's payloads say them."""

from pathlib import Path

import pytest

from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.our_tables.comm_sum import COMM_SUM
from gpu_profile.analysis.store.database import Database
from gpu_profile.table import Table
from tests.further import keep_first
from tests.reading import diagnose_reports
from tests.unit.analysis.nccl_synthetic import experts, pipeline, ring, tensor_and_data
from tests.unit.analysis.synthetic import Recording

EVEN, UNEVEN = (1 << 20,) * 4, (1 << 19, 1 << 19, 5 << 19, 1 << 19)


def diagnosed(recording: Recording, folder: Path) -> Diagnosis:
    with Database.open(recording.save(folder / "run.sqlite")) as database:
        return diagnose_reports(database)


def comm_sum(recording: Recording, folder: Path) -> Table:
    with Database.open(recording.save(folder / "run.sqlite")) as database:
        return COMM_SUM.table(database)


def kinds(diagnosis: Diagnosis) -> set[tuple[str, tuple[int, ...], str]]:
    """The findings, but for the transfers of all-to-alls: they take 4 % of these short steps."""
    told = {(f.kind, f.ranks, f.cause) for f in diagnosis.findings}
    return {finding for finding in told if finding[0] != "exposed_communication"}


@pytest.mark.parametrize("slow", keep_first(1, range(4)))
def test_the_stage_that_bounds_a_pipeline_is_named(slow: int, tmp_path: Path) -> None:
    stages = [400.0] * 4
    stages[slow] = 1200.0
    diagnosis = diagnosed(pipeline(stages), tmp_path)
    findings = [f for f in diagnosis.findings if f.kind == "pipeline"]
    assert [(f.ranks, f.cause) for f in findings] == [((slow,), "stage")]
    assert "ideal for 4 even stages and 8 microbatches: 27 %" in findings[0].evidence[1]
    assert "straggler" not in {f.kind for f in diagnosis.findings}


def test_an_even_pipeline_has_no_bounding_stage(tmp_path: Path) -> None:
    assert "pipeline" not in {f.kind for f in diagnosed(pipeline([400.0] * 4), tmp_path).findings}


def test_a_stage_costs_at_most_what_the_others_wait(tmp_path: Path) -> None:
    """Two stages of 300 and 900 us: the first one waits for two thirds of the step."""
    (finding,) = (
        f for f in diagnosed(pipeline([300.0, 900.0], 16), tmp_path).findings
        if f.kind == "pipeline"
    )  # fmt: skip
    step = 2 * 17 * 0.93
    assert finding.at_most_ms == pytest.approx(2 * step / 3, rel=0.2)


def test_uneven_experts_are_named_and_no_straggler(tmp_path: Path) -> None:
    recording = experts((300, 300, 1500, 300), UNEVEN)
    diagnosis = diagnosed(recording, tmp_path)
    (finding,) = (f for f in diagnosis.findings if f.kind == "experts")
    assert (finding.ranks, finding.cause) == ((2,), "compute")
    assert finding.at_most_ms == pytest.approx(3 * 1.2, rel=0.1)
    assert "2.50 times the mean of tokens" in finding.evidence[2]
    assert "straggler" not in {f.kind for f in diagnosis.findings}


def test_two_busy_ranks_are_named_together(tmp_path: Path) -> None:
    shares = (1 << 19, 3 << 19, 3 << 19, 1 << 19)
    diagnosis = diagnosed(experts((300, 900, 900, 300), shares), tmp_path)
    assert kinds(diagnosis) == {("experts", (1, 2), "compute")}


def test_experts_with_a_tenth_more_tokens_are_no_straggler(tmp_path: Path) -> None:
    """Two of four ranks compute for 12 tokens where the others do for 10: a load of 1.09."""
    shares = (10 << 16, 12 << 16, 12 << 16, 10 << 16)
    diagnosis = diagnosed(experts((1500, 1800, 1800, 1500), shares), tmp_path)
    assert kinds(diagnosis) == {("experts", (1, 2), "compute")}


def test_uneven_experts_are_named_beside_a_slow_host(tmp_path: Path) -> None:
    """Rank 0 waits for the experts of rank 1, which waits as long for the host of rank 0."""
    shares = (1 << 19, 3 << 19)
    recording = experts((300, 1200), shares, host_us=(900, 10))
    findings = kinds(diagnosed(recording, tmp_path))
    assert {("experts", (1,), "compute"), ("idle", (0,), "host")} <= findings


def test_even_experts_on_a_slow_gpu_are_a_straggler(tmp_path: Path) -> None:
    diagnosis = diagnosed(experts((300, 300, 1500, 300), EVEN), tmp_path)
    assert ("straggler", (2,), "compute") in kinds(diagnosis)
    assert "experts" not in {f.kind for f in diagnosis.findings}


@pytest.mark.parametrize(
    ("tokens", "kind"),
    [((20, 20, 21, 20), "straggler"), ((18, 18, 25, 19), "experts")],
    ids=["a load of 1.04, as by chance", "a load of 1.25, as a capacity factor of 1.25 allows"],
)
def test_the_load_tells_uneven_experts_from_a_slow_gpu(
    tokens: tuple[int, ...], kind: str, tmp_path: Path
) -> None:
    """Rank 2 computes for a fifth longer than the others."""
    shares = tuple(count << 15 for count in tokens)
    findings = kinds(diagnosed(experts((1500, 1500, 1800, 1500), shares), tmp_path))
    assert findings == {(kind, (2,), "compute")}


def test_even_experts_are_no_finding(tmp_path: Path) -> None:
    assert "experts" not in {
        f.kind for f in diagnosed(experts((300,) * 4, EVEN), tmp_path).findings
    }


def test_parameters_scattered_before_the_first_step_are_no_pipeline(tmp_path: Path) -> None:
    recording = tensor_and_data(scattered=20)
    diagnosis = diagnosed(recording, tmp_path)
    assert not any("pipeline" in text for text in (*diagnosis.unjudged, diagnosis.to_text()))


def test_groups_are_told_apart_on_one_stream(tmp_path: Path) -> None:
    table = comm_sum(tensor_and_data(), tmp_path)
    columns = (table.column(name) for name in ("Group", "Members", "Rank"))
    assert set(zip(*columns, strict=True)) == {
        *(("tensor", "0, 1", rank) for rank in (0, 1)),
        *(("tensor", "2, 3", rank) for rank in (2, 3)),
        *(("data", "0, 2", rank) for rank in (0, 2)),
        *(("data", "1, 3", rank) for rank in (1, 3)),
    }


@pytest.mark.parametrize("count", [2, 4])
def test_a_ring_is_no_pipeline(count: int, tmp_path: Path) -> None:
    assert set(comm_sum(ring(count), tmp_path).column("Group")) == {"ring"}


def test_all_to_all_and_send_recv_have_bandwidth(tmp_path: Path) -> None:
    table = comm_sum(experts((300,) * 4, EVEN), tmp_path)
    rows = [row for row in range(len(table.rows)) if table.column("Group")[row] == "expert"]
    # Each rank sends 1 MiB to each of three others in 30 us.
    assert {table.column("Bus BW")[row] for row in rows} == {round(3 * (1 << 20) / 30e3, 2)}
    (tmp_path / "pipeline").mkdir()
    between = comm_sum(pipeline([400.0] * 2), tmp_path / "pipeline")
    assert set(between.column("Group")) == {"pipeline"}
    assert set(between.column("Bus BW")) == {round((1 << 20) / 30e3, 2)}


def test_a_recording_that_begins_late_on_one_rank_is_matched_by_order(tmp_path: Path) -> None:
    recording = tensor_and_data()
    kernels = recording.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    nccl = recording.names["ncclDevKernel_AllReduce_Sum_bf16_RING_LL"]
    late = [row for row in kernels if row[2] == 0 and row[6] == nccl][:3]
    recording.rows["CUPTI_ACTIVITY_KIND_KERNEL"] = [row for row in kernels if row not in late]
    table = comm_sum(recording, tmp_path)
    columns = (table.column(name) for name in ("Communicator", "Rank", "Count"))
    alone = [row[1:] for row in zip(*columns, strict=True) if row[0] is None]
    assert alone == [(1, 3)]


def test_sizes_that_are_known_are_not_asked_for(tmp_path: Path) -> None:
    notes = diagnosed(tensor_and_data(), tmp_path).unjudged
    assert not any("do not say their message sizes" in note for note in notes)
