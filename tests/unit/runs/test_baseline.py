"""What a profile cost."""

import json
from pathlib import Path

import pytest

from gpu_profile.analysis.replay.shadow.plain_step import PlainStep
from gpu_profile.runs import baseline, record
from gpu_profile.runs.record import RunRecord

PLAIN = ['{"device": "cpu"}', *(f'{{"step": {n}, "step_ms": {10 + n}}}' for n in range(5))]
PROFILED = [*(f'[0] {{"step": {n}, "step_ms": {11 + n}}}' for n in range(5)), "Generated:"]


def list_steps(folder: Path, output: list[str]) -> list[float]:
    (folder / record.OUTPUT_FILE).write_text("\n".join(output))
    return baseline.list_step_ms(folder)


def test_steps_count_where_both_runs_print_them(tmp_path: Path) -> None:
    plain, profiled = list_steps(tmp_path, PLAIN), list_steps(tmp_path, PROFILED)
    cost = baseline.compute_cost(plain, profiled, 1.0, 9.0)
    ratio = pytest.approx(13 / 12)
    expected = {"step_ms": 12.0, "profiled_step_ms": 13.0, "ratio": ratio, "mean_ms": 12.0}
    assert cost == expected
    assert baseline.describe_cost(cost) == "the profile cost 1.083x: 12.00 -> 13.00 ms a step"


def test_steps_are_those_that_the_marks_tell_for_a_program_prints_those_after_them_too(
    tmp_path: Path,
) -> None:
    assert list_steps(tmp_path, PLAIN) == [10, 11, 12, 13, 14]
    for rank, ms in ((10, 9), (2, 4)):
        facts = {"recorded": [1, 4], "ms": [1, ms, ms, ms, 1]}
        (tmp_path / f"rank{rank}.host.steps.json").write_text(json.dumps(facts))
    assert list_steps(tmp_path, ["hello"]) == [4, 4, 4]
    assert list_steps(tmp_path, PLAIN) == [4, 4, 4]


def test_the_control_of_a_baseline_is_its_mean_after_the_start() -> None:
    """Each tenth step compiles. An evaluation that nobody recorded is in no mean."""
    plain = [900.0] * 20 + [*[10.0] * 9, 410.0] * 4
    cost = baseline.compute_cost([*plain, 9000.0], [x + 1 for x in plain], 1.0, 9.0)
    run = RunRecord(id="a", launcher="host", command=("true",), baseline=cost)
    assert baseline.find_plain_step(run) == PlainStep(50.0)
    older = {name: value for name, value in cost.items() if name != "mean_ms"}
    run = RunRecord(id="a", launcher="host", command=("true",), baseline=older)
    assert baseline.find_plain_step(run) == PlainStep(cost["step_ms"])


def test_duration_counts_otherwise() -> None:
    cost = baseline.compute_cost([], [1.0, 1.0, 1.0], 2.0, 3.0)
    assert baseline.describe_cost(cost) == "the profile cost 1.500x: 2.00 -> 3.00 s in all"


def test_a_cost_below_one_is_noise() -> None:
    measured = {"wall_s": 2.0, "profiled_wall_s": 1.9, "ratio": 0.95}
    line = "what the profile cost is within the noise of runs: 0.950x, 2.00 -> 1.90 s in all"
    assert baseline.describe_cost(measured) == line


def test_lines_that_are_no_steps_are_passed_over() -> None:
    odd = ['{"step": 1', '{"step": 2, "step_ms": "x"}', "x", '{"step": 3, "step_ms": 4}']
    assert baseline.step_times_ms(odd) == [4.0]


def test_no_baseline_says_nothing() -> None:
    assert baseline.describe_cost({}) == ""


def test_the_cost_of_a_directory_is_read_from_its_record(tmp_path: Path) -> None:
    measured = {"wall_s": 2.0, "profiled_wall_s": 3.0, "ratio": 1.5}
    run = RunRecord(id="a", launcher="host", command=("true",), baseline=measured)
    record.save_run(run, tmp_path)
    assert baseline.describe_cost_of(tmp_path) == "the profile cost 1.500x: 2.00 -> 3.00 s in all"


def test_a_directory_with_a_damaged_record_or_none_has_no_cost(tmp_path: Path) -> None:
    assert baseline.describe_cost_of(tmp_path) == ""
    (tmp_path / record.RUN_FILE).write_text('{"baseline": 5')
    assert baseline.describe_cost_of(tmp_path) == ""
