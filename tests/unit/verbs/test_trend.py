"""reports --trend: the windows of a run in one table."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_profile.runs import record
from gpu_profile.runs.record import RunRecord
from tests.invoked import invoke
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

_NS = 10**9


def slower(rank: Rank) -> None:
    for _ in range(20):
        rank.kernel(200)


def make_run(directory: Path, windows: int) -> None:
    directory.mkdir(mode=0o700)
    run = RunRecord(id=directory.name, launcher="host", command=("x",), phase="done", cleaned=True)
    record.save_run(run, directory)
    for number in range(1, windows + 1):
        training = Training(ranks=1, steps=12)
        recording = (replace(training, data=slower) if number == 2 else training).record()
        recording.add("TARGET_INFO_SESSION_START_TIME", (1_795_000_000 + 600 * number) * _NS)
        report = directory / f"rank0.node.{number}.nsys-rep"
        report.write_bytes(b"recorded")
        recording.save(report.with_suffix(".sqlite"))


def test_a_row_a_window(tmp_path: Path) -> None:
    make_run(tmp_path / "train-1", 3)
    (tmp_path / "train-1" / "rank0.node.3.sqlite").write_bytes(b"damaged")
    words = ("reports", "--trend", "--run=train-1", "--format=csv", f"--set=REPORT_DIR={tmp_path}")
    done = invoke(*words, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["Window"] for row in rows] == ["1", "2", "3"]
    assert rows[1]["Recorded"] == "2026-11-18 11:26:40+00:00"
    steps = [float(row["Step (ns)"]) for row in rows[:2]]
    assert steps[1] > 1.2 * steps[0]
    for row in rows[:2]:
        assert 0 <= float(row["Idle (%)"]) < 100
        assert row["Exposed Communication (%)"]
    assert rows[2]["Step (ns)"] == ""
    assert "window 3: " in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--trend", "--run=train-1"), "train-1 has no windows"),
        (("--run=train-1",), "Add --tag main, or --trend"),
    ],
)
def test_what_is_refused(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    make_run(tmp_path / "train-1", 0)
    done = invoke("reports", *words, f"--set=REPORT_DIR={tmp_path}", directory=tmp_path)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
