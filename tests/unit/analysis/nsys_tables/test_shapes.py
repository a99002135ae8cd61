"""Reports of other shapes than one process with one GPU: the analyses hold their ground."""

from pathlib import Path

import pytest

from gpu_profile.analysis.activity.load.activities import load_activities
from gpu_profile.analysis.findings.diagnose import judge_run
from gpu_profile.analysis.findings.diagnosed_report import collect_report_facts
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.by_name import OURS
from tests.reading import diagnose_reports
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank, Recording, ranks_of

KERNEL, RUNTIME = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX = "NVTX_EVENTS"


def computes(rank: Rank) -> None:
    for _ in range(10):
        rank.kernel(300)


def part_of(recording: Recording, rank: int) -> Recording:
    """What one rank's own report would hold of the run."""
    place = {KERNEL: 5, "CUPTI_ACTIVITY_KIND_MEMCPY": 5, RUNTIME: 3, NVTX: 3}
    part = Recording(names=recording.names)
    for table, rows in recording.rows.items():
        column = place.get(table)
        mine = [row for row in rows if column is None or _pid(row[column]) == 100 + rank]
        part.rows[table] = mine
    return part


def _pid(global_id: object) -> int:
    return int(str(global_id)) >> 24 & 0xFFFFFF


@pytest.mark.further
def test_twenty_ranks_in_as_many_reports(tmp_path: Path) -> None:
    training = Training(ranks=20, steps=5, layers=3, transfer_us=30, only={17: computes})
    recording = training.record()
    parts = []
    for rank in range(20):
        path = part_of(recording, rank).save(tmp_path / f"rank{rank}.sqlite")
        with Database.open(path) as database:
            parts.append(collect_report_facts(database, Scope({100 + rank: rank})))
    diagnosis = judge_run(parts)
    assert [(f.kind, f.ranks, f.cause) for f in diagnosis.findings] == [
        ("straggler", (17,), "compute")
    ]
    assert judge_run(parts[::-1]).to_json() == diagnosis.to_json()


def test_one_report_and_many_say_the_same(tmp_path: Path) -> None:
    recording = Training(only={2: computes}).record()
    paths = [part_of(recording, rank).save(tmp_path / f"rank{rank}.sqlite") for rank in range(4)]
    with Database.open(recording.save(tmp_path / "all.sqlite")) as database:
        whole = diagnose_reports(database)
    databases = [Database.open(path) for path in paths]
    assert diagnose_reports(*databases).to_json() == whole.to_json()
    for database in databases:
        database.close()


@pytest.mark.parametrize(("steps", "told"), [(60, True), (16, False)])
def test_a_rank_whose_capture_ends_early_is_told(steps: int, told: bool, tmp_path: Path) -> None:
    """Half of 16 steps of 42 launches fits in the launch queue, so it may be a window's edge."""
    recording = Training(steps=steps).record()
    end = sorted(int(str(row[1])) for row in recording.rows[KERNEL])[
        len(recording.rows[KERNEL]) // 2
    ]
    for table, column in ((KERNEL, 5), (RUNTIME, 3), (NVTX, 3)):
        recording.rows[table] = [
            row
            for row in recording.rows[table]
            if _pid(row[column]) != 103 or int(str(row[1])) <= end
        ]
    with Database.open(recording.save(tmp_path / "short.sqlite")) as database:
        findings = [f for f in diagnose_reports(database).findings if f.kind == "capture"]
    assert (((3,), "cut_short") in [(f.ranks, f.cause) for f in findings]) == told


def test_one_process_on_two_gpus_has_two_rows(tmp_path: Path) -> None:
    rank = ranks_of(1)[0]
    for _ in range(5):
        rank.kernel(100)
    rows = rank.recording.rows[KERNEL]
    rows += [(*row[:2], 1, *row[3:]) for row in rows]
    with Database.open(rank.recording.save(tmp_path / "two.sqlite")) as database:
        table = OURS["temporal_breakdown"].table(database)
    assert table.column("Device") == (0, 1)


def test_a_mere_context_on_a_second_gpu_is_no_rank(tmp_path: Path) -> None:
    rank = ranks_of(1)[0]
    for _ in range(50):
        rank.kernel(100)
    first = rank.recording.rows[KERNEL][0]
    rank.recording.rows[KERNEL].append((*first[:2], 1, *first[3:]))
    with Database.open(rank.recording.save(tmp_path / "context.sqlite")) as database:
        assert [activity.device for activity in load_activities(database, Scope())] == [0]


def test_operations_without_their_calls(tmp_path: Path) -> None:
    """A report without the CUDA API has kernels all the same."""
    recording = Training().record()
    recording.rows[RUNTIME] = []
    with Database.open(recording.save(tmp_path / "bare.sqlite")) as database:
        rows = {name: len(analysis.table(database).rows) for name, analysis in OURS.items()}
        causes = {finding.cause for finding in diagnose_reports(database).findings}
    assert rows["temporal_breakdown"] == 4
    assert rows["launch_sum"] == 0
    assert causes == {"lost_events"}


def test_a_rank_whose_steps_were_not_all_found_is_not_cut_short(tmp_path: Path) -> None:
    """It recorded for as long as the others: every second range has another name there."""
    recording = Training(steps=16).record()
    rows = recording.rows[NVTX]
    mine = [place for place, row in enumerate(rows) if row[5] == "step" and _pid(row[3]) == 103]
    for place in mine[::2]:
        rows[place] = (*rows[place][:5], "warm", *rows[place][6:])
    with Database.open(recording.save(tmp_path / "named.sqlite")) as database:
        assert [f.cause for f in diagnose_reports(database).findings if f.kind == "capture"] == []
