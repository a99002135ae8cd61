"""What a run ends with: the answer, its page, and the same as JSON."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import gpu_profile
from gpu_profile.command import Result
from gpu_profile.runs import record
from gpu_profile.runs.record import ReportSummary, RunRecord
from tests.invoked import invoke
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

FILE = "rank0.here.sqlite"
RUN = RunRecord(
    id="train-1",
    launcher="host",
    command=("python3", "train.py"),
    handle="host://train-1",
    phase="done",
    exit_code=0,
    reports=(ReportSummary(file=FILE, rank=0, host="here", bytes=1, events={"cuda": 9}),),
    baseline={"wall_s": 2.0, "profiled_wall_s": 3.0, "ratio": 1.5},
    cleaned=True,
)


def start(rank: Rank) -> None:
    rank.call("cuLibraryLoadData", 2_000_000)


HOST_BOUND = Training(kernel_us=8, host_us=30, transfer_us=30, before=start)
WITHOUT_STEPS = Training(ranks=1, steps=2, step_range="", kernel_us=8, host_us=3_000)


def fetched(training: Training, folder: Path, *flags: str, run: RunRecord = RUN) -> Result:
    directory = folder / run.id
    directory.mkdir()
    record.save_run(run, directory)
    training.record().save(directory / FILE)
    words = ("fetch", "--job", run.id, *flags)
    return invoke(*words, directory=folder, REPORT_DIR=str(folder))


def test_the_answer_is_in_few_lines(tmp_path: Path) -> None:
    done = fetched(HOST_BOUND, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "start-up: 2.0 s on rank 3, of which 2.0 s loading CUDA libraries" in done.stdout
    assert any(line.startswith("step: ") and "found by range step" in line for line in lines)
    assert "1. host_bound on 0, 1, 2, 3: launch" in done.stdout
    assert "tracing adds to this: the profile cost 1.500x" in done.stdout
    assert "cuda_gpu_kern_sum" not in done.stdout
    page = tmp_path / RUN.id / "page.html"
    assert f"page: {page}" in done.stdout
    assert "Start-up" in page.read_text()


def test_no_page_and_tables_where_that_is_wanted(tmp_path: Path) -> None:
    done = fetched(HOST_BOUND, tmp_path, "--no-html", "--stats")
    assert done.returncode == 0, done.stderr
    assert "cuda_gpu_kern_sum" in done.stdout
    assert not (tmp_path / RUN.id / "page.html").exists()


def test_the_answer_as_json(tmp_path: Path) -> None:
    done = fetched(HOST_BOUND, tmp_path, "--format", "json")
    document = json.loads(done.stdout)
    assert document["start_up"]["seconds"] == pytest.approx(2.0, rel=0.05)
    assert document["step_ms"]["count"] == 11
    assert document["findings"][0]["kind"] == "host_bound"
    assert document["page"].endswith("page.html")


@pytest.mark.parametrize("training", [HOST_BOUND, WITHOUT_STEPS], ids=["steps", "no steps"])
def test_the_answer_is_valid_by_its_schema(training: Training, tmp_path: Path) -> None:
    done = fetched(training, tmp_path, "--no-html", "--format", "json")
    assert done.returncode == 0, done.stderr
    Draft202012Validator(gpu_profile.schema("answer")).validate(json.loads(done.stdout))


def test_without_steps_nothing_says_a_step(tmp_path: Path) -> None:
    done = fetched(WITHOUT_STEPS, tmp_path, run=replace(RUN, baseline={}))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / RUN.id / "page.html").read_text().partition("<script")[0]
    assert "Could not judge single steps: " in done.stdout
    assert "rank 0" not in done.stdout.replace("rank0", "")
    assert "ms a step" not in done.stdout + page
