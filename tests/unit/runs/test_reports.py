"""What counts as a report, and what is said of one that does not."""

from pathlib import Path

import pytest

from gpu_profile.errors import ReportError
from gpu_profile.runs.reports import validate
from gpu_profile.runs.reports.report_files import find_reports
from gpu_profile.runs.reports.validate import Report

REPORT = Report(path=Path("/r/rank0.host.nsys-rep"), rank=0, host="host")


def test_reports_are_found_by_rank(tmp_path: Path) -> None:
    for name in ("rank10.a.nsys-rep", "rank2.b.c.nsys-rep", "rank1.a.sqlite", "x.nsys-rep"):
        (tmp_path / name).touch()
    reports = validate.find_reports(tmp_path)
    assert [(each.rank, each.host) for each in reports] == [(2, "b.c"), (10, "a")]
    assert reports[0].sqlite.name == "rank2.b.c.sqlite"


def test_a_windows_number_is_not_the_hosts(tmp_path: Path) -> None:
    for name in ("rank0.vm.2", "rank0.vm.1", "rank1.10.0.0.7", "rank2.10.0.0.7.1"):
        (tmp_path / f"{name}.nsys-rep").touch()
    reports = validate.find_reports(tmp_path)
    assert [(each.rank, each.host, each.window) for each in reports] == [
        (0, "vm", 1),
        (0, "vm", 2),
        (1, "10.0.0.7", 0),
        (2, "10.0.0.7", 1),
    ]


def test_events_are_counted_by_kind() -> None:
    rows = {"CUPTI_ACTIVITY_KIND_KERNEL": 3, "CUPTI_ACTIVITY_KIND_MEMCPY": 2, "NVTX_EVENTS": 1}
    assert validate.count_events(rows) == {"cuda": 5, "nvtx": 1, "osrt": 0, "mpi": 0}


def test_a_job_that_never_started_cuda_is_told() -> None:
    with pytest.raises(ReportError, match="holds no cuda events") as said:
        validate.check_events(REPORT, {"cuda": 0, "nvtx": 5}, ["cuda"])
    assert said.value.exit_code == 6


def test_a_report_with_all_kinds_counts() -> None:
    validate.check_events(REPORT, {"cuda": 1, "nvtx": 5}, ["cuda", "nvtx"])


def test_a_rank_without_a_report_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no report of rank 0, 3"):
        validate.check_ranks((), [0, 3], tmp_path)


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ([], "Give a .sqlite, .nsys-rep or .pt.trace.json."),
        (["b", "a"], "Give one of its directories: a, b."),
        (["d", "c", "b", "a"], "Give one of its directories: a, b, c, …."),
    ],
)
def test_a_directory_of_directories_with_reports_names_some(
    tmp_path: Path, names: list[str], hint: str
) -> None:
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "rank0.pt.trace.json.gz").touch()
    with pytest.raises(ReportError) as refused:
        find_reports([str(tmp_path)])
    assert str(refused.value) == f"{tmp_path} holds no report. {hint}"


@pytest.mark.parametrize(
    "why",
    [
        "--steps 20:40: it ended after 12 steps",
        "--steps 3:6: it made no step of PyTorch that could be counted",
    ],
)
def test_a_window_of_steps_that_was_missed_is_the_reason(tmp_path: Path, why: str) -> None:
    words = f"profile.py: rank 0: nsys wrote no report: {why}\n"
    (tmp_path / "output.log").write_text(f"loss 0.1\n{words}")
    with pytest.raises(ReportError, match=f"no report of rank 0 in .*: {why}. Choose --steps"):
        validate.check_ranks([], [0], tmp_path)


def test_a_recording_without_its_import_is_named(tmp_path: Path) -> None:
    (tmp_path / "rank0.host.qdstrm").touch()
    with pytest.raises(ReportError, match=r"not imported: rank0\.host\.qdstrm. An nsys with"):
        validate.check_ranks((), [0], tmp_path)


def test_a_rank_without_a_recording_is_told_from_one_with(tmp_path: Path) -> None:
    (tmp_path / "rank1.vm.qdstrm").write_bytes(b"recorded")
    with pytest.raises(ReportError) as caught:
        validate.check_ranks((), [0, 1, 2], tmp_path)
    assert caught.value.what == (
        "rank 1 left a recording that was not imported: rank1.vm.qdstrm;"
        f" no report of rank 0, 2 in {tmp_path}"
    )
