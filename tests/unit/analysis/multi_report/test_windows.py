"""Windows of one process: one rank, one series of steps, no time between them."""

from pathlib import Path

import pytest

from gpu_profile.analysis.activity.cached import activities_of, host_ranges_of
from gpu_profile.analysis.activity.steps.find_steps import find_steps, host_steps
from gpu_profile.analysis.multi_report.ranks import split_window
from gpu_profile.analysis.multi_report.survey import ReportSet, run_of, survey_report
from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

GAP_NS = 10**12


def computes(rank: Rank) -> None:
    for _ in range(10):
        rank.kernel(300)


def windows_of(folder: Path, training: Training, count: int = 3) -> list[Path]:
    """The same steps in each window, each by a clock of its own, 1000 s apart."""
    paths = []
    for number in range(1, count + 1):
        recording = training.record()
        recording.add("TARGET_INFO_SESSION_START_TIME", 10**18 + number * GAP_NS)
        paths.append(recording.save(folder / f"all.{number}.sqlite"))
    return paths


def run(paths: list[Path]) -> tuple[ReportSet, list[Database]]:
    databases = [Database.open(path) for path in paths]
    return run_of([survey_report(database) for database in databases]), databases


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rank0.vm.2.sqlite.gz", ("rank0.vm", 2)),
        ("rank0.vm.sqlite", ("rank0.vm", 0)),
        ("rank10.node1.cluster.12.nsys-rep", ("rank10.node1.cluster", 12)),
        ("rank0.10.0.0.7.sqlite", ("rank0.10.0.0.7", 0)),
        ("rank0.10.0.0.7.3.sqlite", ("rank0.10.0.0.7", 3)),
    ],
)
def test_a_windows_number_stands_last(name: str, expected: tuple[str, int]) -> None:
    assert split_window(name) == expected


def test_a_window_is_never_a_rank(tmp_path: Path) -> None:
    reports, databases = run(windows_of(tmp_path, Training(steps=6)))
    ranks = [dict(by_pid) for by_pid in reports.ranks.by_report]
    assert ranks == [{100: 0, 101: 1, 102: 2, 103: 3}] * 3
    assert reports.notes()[0].startswith("3 windows, read as one series")
    for database in databases:
        database.close()


def test_windows_are_one_series_of_steps(tmp_path: Path) -> None:
    paths = windows_of(tmp_path, Training(steps=6))
    reports, databases = run(paths)
    first, *later = reports.join([str(path) for path in paths])
    assert all(scope.is_joined for scope in later)
    activities = activities_of(databases[0], first)
    assert [len(find_steps(activity)) for activity in activities] == [18] * 4
    assert activities_of(databases[1], later[0]) == ()
    recorded = sum(end - start for _, start, end in first.edges)
    whole = int(activities[0].ops.end.max()) - int(activities[0].ops.start[0])
    assert whole == pytest.approx(recorded, rel=0.05)
    for database in databases:
        database.close()


def test_findings_are_those_of_one_long_recording(tmp_path: Path) -> None:
    databases = run(windows_of(tmp_path, Training(steps=6, only={2: computes})))[1]
    (finding,) = diagnose_reports(*databases).findings
    assert (finding.kind, finding.ranks, finding.cause) == ("straggler", (2,), "compute")
    assert finding.at_most_ms == pytest.approx(3.0, rel=0.1)
    assert "rank 2 arrived last in 17 of 17 collectives" in finding.evidence
    for database in databases:
        database.close()


def test_windows_without_gpu_work_follow_each_other_too(tmp_path: Path) -> None:
    paths = []
    for number in (1, 2):
        rank = Rank(Training(steps=0).record(), 0)
        for _ in range(5):
            start = rank.now
            rank.work(1000)
            rank.range("step", start)
        rank.recording.add("TARGET_INFO_SESSION_START_TIME", 10**18 + number * GAP_NS)
        paths.append(rank.recording.save(tmp_path / f"rank0.vm.{number}.sqlite"))
    reports, databases = run(paths)
    scope = reports.join([str(path) for path in paths])[0]
    ((rank_number, ranges),) = host_ranges_of(databases[0], scope)
    assert (rank_number, len(host_steps(ranges))) == (0, 10)
    assert all(ranges.end[:-1] <= ranges.start[1:])
    assert 10_000_000 <= ranges.end[-1] - ranges.start[0] < 10_100_000
    for database in databases:
        database.close()


def test_other_processes_with_numbers_in_their_names_are_ranks(tmp_path: Path) -> None:
    """job.1 and job.2 of different processes are two ranks."""
    one = Training(ranks=1, steps=3)
    paths = [one.record().save(tmp_path / "job.1.sqlite")]
    other = one.record()
    for table, column in (("CUPTI_ACTIVITY_KIND_KERNEL", 5), ("TARGET_INFO_CUDA_DEVICE", 2)):
        other.rows[table] = [
            (*row[:column], (1 << 48) | (500 << 24) if column == 5 else 500, *row[column + 1 :])
            for row in other.rows[table]
        ]
    paths.append(other.save(tmp_path / "job.2.sqlite"))
    reports, databases = run(paths)
    assert not reports.windows.several
    assert sorted(rank for by in reports.ranks.by_report for rank in by.values()) == [0, 1]
    for database in databases:
        database.close()
