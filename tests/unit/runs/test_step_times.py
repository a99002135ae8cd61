"""Step times beside a report: what is read of them, kept in run.json, and said."""

import json
from pathlib import Path

import pytest

from gpu_profile.runs import record
from gpu_profile.runs.baseline import find_control_ms
from gpu_profile.runs.record import ReportSummary, RunRecord
from gpu_profile.runs.step_times import StepTimes, describe_step_times, read_step_times


def write(folder: Path, text: str) -> Path:
    (folder / "rank0.host.steps.json").write_text(text)
    return folder / "rank0.host.nsys-rep"


def facts(recorded: object, ms: object) -> str:
    return json.dumps({"steps": 9, "window": [2, 4], "recorded": recorded, "ms": ms})


def test_times_are_read(tmp_path: Path) -> None:
    report = write(tmp_path, facts([2, 4], [9, 1, 3.5, 3.5, 1]))
    expected = StepTimes(first=0, recorded=(2, 4), ms=(9.0, 1.0, 3.5, 3.5, 1.0))
    assert read_step_times(report) == expected


def test_of_many_steps_those_around_the_window_are_kept(tmp_path: Path) -> None:
    times = read_step_times(write(tmp_path, facts([500, 520], list(range(2000)))))
    assert times is not None
    assert (times.first, times.ms[0], times.ms[-1], len(times.ms)) == (370, 370.0, 569.0, 200)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 9000,
        facts([], [1]),
        facts([4, 2], [1]),
        facts([2, 4], "x"),
        facts([2, 4], [None]),
        facts([2, 4], [-1]),
        facts([2, 4], [float("nan")]),
        facts(["a", "b"], [1]),
    ],
    ids=range(11),
)
def test_a_damaged_file_counts_as_none(tmp_path: Path, text: str) -> None:
    assert read_step_times(write(tmp_path, text)) is None


def test_no_file(tmp_path: Path) -> None:
    assert read_step_times(tmp_path / "rank0.host.nsys-rep") is None


def test_recorded_steps_are_compared_with_the_others() -> None:
    times = StepTimes(first=10, recorded=(12, 15), ms=(4, 4, 5, 5, 5, 4))
    assert describe_step_times(1, times) == (
        "rank 1, by the program's clock: 5.00 ms a step in steps 12 to 14, which are recorded;"
        " 4.00 ms in the others (1.250x)"
    )
    assert describe_step_times(1, StepTimes(first=0, recorded=(0, 2), ms=(1, 1, 1))) == ""


def test_the_record_keeps_them(tmp_path: Path) -> None:
    summary = ReportSummary(
        file="a", rank=0, host="h", bytes=1, events={}, recorded_steps=(2, 4), step_ms=(1.5, 2.0)
    )
    run = RunRecord(id=tmp_path.name, launcher="docker", command=("x",), reports=(summary,))
    record.save_run(run, tmp_path)
    assert record.load_run(tmp_path).reports == (summary,)


def test_the_control_is_the_mean_of_the_steps_behind_the_recording() -> None:
    """Steps 2 and 3 are recorded, the recording ends in step 4."""
    times = StepTimes(first=1, recorded=(2, 4), ms=(9.0, 5.0, 5.0, 50.0, 3.0, 4.0, 5.0))
    assert times.control_ms() == pytest.approx(4.0)
    assert StepTimes(first=1, recorded=(2, 4), ms=(9.0, 5.0, 5.0, 50.0, 3.0)).control_ms() == 0


@pytest.mark.parametrize(
    ("baseline", "step_ms", "control"),
    [({"step_ms": 7.0}, (1.0, 2.0), 7.0), ({}, (9, 9, 9, 5, 6, 7), 6.0), ({}, (9, 9), 0.0)],
)
def test_the_control_of_a_run_is_its_baseline_else_the_slowest_ranks_steps(
    baseline: dict[str, float], step_ms: tuple[float, ...], control: float
) -> None:
    reports = tuple(
        ReportSummary(
            file="a", rank=rank, host="h", bytes=1, events={}, recorded_steps=(0, 2),
            step_ms=tuple(ms / (rank + 1) for ms in step_ms),
        )
        for rank in range(2)
    )  # fmt: skip
    run = RunRecord(id="r", launcher="host", command=(), reports=reports, baseline=baseline)
    assert find_control_ms(run) == control
