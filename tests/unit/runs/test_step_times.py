"""Step times beside a report: what is read of them, kept in run.json, and said."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_profile.analysis.replay.shadow.plain_step import PlainStep
from gpu_profile.runs import record
from gpu_profile.runs.baseline import CALLBACK_NS, describe_control, find_plain_step
from gpu_profile.runs.outcome import describe_steps
from gpu_profile.runs.record import ReportSummary, RunRecord
from gpu_profile.runs.step_times import Control, StepTimes, read_step_times


def write(folder: Path, text: str) -> Path:
    (folder / "rank0.host.steps.json").write_text(text)
    return folder / "rank0.host.nsys-rep"


def facts(recorded: object, ms: object, **more: object) -> str:
    return json.dumps({"steps": 9, "window": [2, 4], "recorded": recorded, "ms": ms, **more})


def test_times_are_read(tmp_path: Path) -> None:
    report = write(tmp_path, facts([2, 4], [9, 1, 3.5, 3.5, 1]))
    expected = StepTimes(recorded_steps=(2, 4), ms=(9.0, 1.0, 3.5, 3.5, 1.0), control=5)
    assert read_step_times(report) == expected
    report = write(tmp_path, facts([0, 2], [1, 2], control=None))
    assert read_step_times(report) == StepTimes(recorded_steps=(0, 2), ms=(1.0, 2.0))
    phases = {"forward_ms": [1, 0.5], "another_ms": 5}
    report = write(tmp_path, facts([0, 2], [1, 2], phases=phases))
    expected = StepTimes(
        recorded_steps=(0, 2), ms=(1.0, 2.0), control=3, forward_ms=(1.0, 0.5), optimizer_ms=()
    )
    assert read_step_times(report) == expected
    report = write(tmp_path, facts([0, 2], [1, 2], control=7))
    assert read_step_times(report) == StepTimes(recorded_steps=(0, 2), ms=(1.0, 2.0), control=7)


def test_of_many_steps_those_around_the_end_are_kept() -> None:
    times = StepTimes(recorded_steps=(500, 520), ms=tuple(map(float, range(2000))))
    first, ms = times.excerpt()
    assert (first, ms[0], ms[-1], len(ms)) == (370, 370.0, 569.0, 200)


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
        facts([2, 4], [1], control=3),
        facts([2, 4], [1], control="x"),
        facts([2, 4], [1], phases=5),
        facts([2, 4], [1], phases={"forward_ms": [-1]}),
        facts([2, 4], [1], phases={"optimizer_ms": "x"}),
    ],
    ids=range(16),
)
def test_a_damaged_file_counts_as_none(tmp_path: Path, text: str) -> None:
    assert read_step_times(write(tmp_path, text)) is None


def test_no_file(tmp_path: Path) -> None:
    assert read_step_times(tmp_path / "rank0.host.nsys-rep") is None


def test_the_record_keeps_them(tmp_path: Path) -> None:
    summary = ReportSummary(
        file="a", rank=0, host="h", bytes=1, events={}, recorded_steps=(2, 4), step_ms=(1.5, 2.0),
        control={"first": 5, "count": 3, "ms": 2.0, "recorded_ms": 3.0},
    )  # fmt: skip
    run = RunRecord(id=tmp_path.name, launcher="docker", command=("x",), reports=(summary,))
    record.save_run(run, tmp_path)
    assert record.load_run(tmp_path).reports == (summary,)


def test_the_control_is_the_mean_of_the_steps_after_the_recording() -> None:
    """An evaluation, in step 5, is in none of the means."""
    times = StepTimes(
        recorded_steps=(0, 3), ms=(9.0, 5.0, 4.0, 50.0, 3.0, 400.0, 5.0, 4.0), control=4
    )
    control = times.find_control()
    assert control == Control(first=4, count=4, ms=4.0, recorded_ms=6.0, slow_step=5, slow_ms=400.0)
    assert replace(times, control=None).find_control() is None
    assert replace(times, control=6).find_control() is None, "of two steps"
    assert replace(times, recorded_steps=(0, 2)).steady_ms() == 0, "of two steps"
    nothing = replace(times, recorded_steps=(4, 4)).find_control()
    assert nothing is not None
    assert (nothing.ms, nothing.recorded_ms) == (4.0, 0.0)


def make_phases(forward_ms: float, control: int = 61) -> StepTimes:
    """60 recorded steps with a forward of 4 ms, and 40 later ones with one of `forward_ms`, half of
    which wait for the GPU. The first step after the recording counts nowhere.
    """
    recorded, later = (4.0,) * 58 + (9.0,) * 2, (forward_ms, forward_ms + 5) * 20
    return StepTimes(
        recorded_steps=(0, 60), ms=(9.0,) * 101, control=control,
        forward_ms=(*recorded, 80.0, *later), optimizer_ms=(0.0,) * 60 + (1.0,) * 41,
    )  # fmt: skip


def test_phases_of_the_control_are_compared_by_their_lower_quartiles() -> None:
    control = make_phases(3.0).find_control()
    assert control is not None
    assert (control.forward_ratio, control.optimizer_ratio) == (0.75, 0.0)


@pytest.mark.parametrize(
    "times",
    [
        replace(make_phases(3.0), forward_ms=()),
        replace(make_phases(3.0), forward_ms=(1.0,) * 100),
        make_phases(3.0, control=92),
        replace(make_phases(3.0), recorded_steps=(52, 60)),
    ],
    ids=["an older file", "of other steps", "few in the control", "few recorded"],
)
def test_phases_that_tell_no_ratio(times: StepTimes) -> None:
    control = times.find_control()
    assert control is not None
    assert (control.forward_ratio, control.optimizer_ratio) == (0.0, 0.0)


@pytest.mark.parametrize(("slow", "control"), [(3, 104.0), (2, 10.0)])
def test_slow_steps_are_in_the_mean_where_three_are_recorded(slow: int, control: float) -> None:
    """The evaluation of step 80 is slower than all that is recorded, and in no mean."""
    tenths = (10.0,) * 9 + (950.0,)
    recorded = (10.0,) * (60 - 10 * slow) + tenths * slow
    ms = (*recorded, *tenths * 2, 9000.0, *tenths * 18)
    times = StepTimes(recorded_steps=(0, 60), ms=ms, control=60)
    step = times.find_control()
    assert step is not None
    assert step.slow_ms == 9000.0
    assert step.ms == pytest.approx(control, rel=0.05)


def test_few_steps_have_the_slow_ones_as_often_as_they_were_recorded(tmp_path: Path) -> None:
    """Of what each tenth step does, seven steps may hold nothing."""
    tenths = (12.0,) * 9 + (950.0,)
    control = StepTimes(
        recorded_steps=(0, 60), ms=(*tenths * 6, *(10.0,) * 7), control=60
    ).find_control()
    assert control is not None
    assert (control.ms, control.slow_part, control.recorded_ms) == (104.0, 0.1, 105.8)
    reports = (
        ReportSummary(
            file="a", rank=0, host="h", bytes=1, events={}, control=dataclasses.asdict(control)
        ),
    )
    run = RunRecord(id="r", launcher="host", command=(), reports=reports)
    record.save_run(run, tmp_path)
    assert describe_control(tmp_path) == (
        "by the clock of rank 0: 105.80 ms a step recorded, 104.00 ms in 7 steps that were not "
        "recorded, with 10 % of slow steps as recorded",
    )


def test_one_slow_step_does_not_make_the_control_longer() -> None:
    """Nothing that was recorded explains it; it is told by its number."""
    times = StepTimes(recorded_steps=(0, 60), ms=(4.0,) * 61 + (2.0,) * 20 + (9.0,), control=61)
    control = times.find_control()
    assert control is not None
    assert (control.ms, control.slow_step, control.slow_ms) == (2.0, 81, 9.0)


def test_the_start_is_not_among_the_steady_steps() -> None:
    times = StepTimes(
        recorded_steps=(0, 60), ms=(9.0,) * 20 + (2.0,) * 40 + (1.0,) * 300, control=61
    )
    control = times.find_control()
    assert control == Control(first=61, count=200, ms=1.0, recorded_ms=2.0)


@pytest.mark.parametrize(
    ("recorded", "slow"), [(2.0, (100, 5.0)), (2.5, (100, 5.0)), (3.0, (0, 0.0))]
)
def test_a_step_is_slow_if_none_as_slow_is_recorded(
    recorded: float, slow: tuple[int, float]
) -> None:
    ms = (5.0,) * 20 + (2.0,) * 39 + (recorded,) + (2.0,) * 40 + (5.0,) + (2.0,) * 9
    control = StepTimes(recorded_steps=(0, 60), ms=ms, control=61).find_control()
    assert control is not None
    assert (control.slow_step, control.slow_ms) == slow


def test_the_control_of_a_run_is_its_baseline_else_that_of_the_last_rank(tmp_path: Path) -> None:
    """Behind a recording nsys is still called back; --baseline runs without it."""
    reports = tuple(
        ReportSummary(
            file="a", rank=rank, host="h", bytes=1, events={},
            control={"count": 40, "ms": ms, "recorded_ms": 404.0, "slow_step": slow,
                     "slow_ms": 852},
        )
        for rank, ms, slow in ((0, 101.0, 0), (1, 213.0, 913))
    )  # fmt: skip
    run = RunRecord(id="r", launcher="host", command=(), reports=reports)
    record.save_run(run, tmp_path)
    assert find_plain_step(run) == PlainStep(213.0, CALLBACK_NS)
    late = replace(reports[0], control={**reports[0].control, "first": 70})
    assert find_plain_step(replace(run, reports=(late, reports[1]))).ms == 101.0
    timed = replace(late, control={**late.control, "forward_ratio": 0.7, "backward_ratio": 0.9})
    assert find_plain_step(replace(run, reports=(timed,))).phases == (0.7, 0.9, 0.0)
    few = replace(late, control={**late.control, "count": 3})
    assert find_plain_step(replace(run, reports=(few, reports[1]))).ms == 213.0
    assert describe_control(tmp_path) == (
        "by the clock of rank 1: 404.00 ms a step recorded, 213.00 ms in 40 steps that were not"
        " recorded",
        "step 913 took 852.00 ms, 4.0x as long: `invoke profile --steps 911:915 -- …` records it",
    )
    record.save_run(replace(run, reports=reports[:1]), tmp_path)
    assert len(describe_control(tmp_path)) == 1
    assert find_plain_step(replace(run, baseline={"step_ms": 7.0})) == PlainStep(7.0)
    assert find_plain_step(replace(run, reports=())) == PlainStep()
    assert describe_control(tmp_path / "absent") == ()


def test_forwards_tell_how_much_shorter_a_step_is_without_the_recording(tmp_path: Path) -> None:
    """A step of the report may hold several of them, or a part of one."""
    report = write(tmp_path, facts([0, 40], [8.0] * 40 + [6.0] * 20, unit="forward"))
    times = read_step_times(report)
    assert times is not None
    assert times.unit == "forward"
    control = times.find_control()
    assert control is not None
    summary = ReportSummary(
        file="a", rank=0, host="h", bytes=1, events={}, recorded_steps=(0, 40),
        step_unit=times.unit, control=dataclasses.asdict(control),
    )  # fmt: skip
    run = RunRecord(id="r", launcher="host", command=(), reports=(summary,))
    record.save_run(run, tmp_path)
    assert find_plain_step(record.load_run(tmp_path)) == PlainStep(0.0, CALLBACK_NS, 0.75)
    timed = {**summary.control, "forward_ratio": 0.8}
    plain = find_plain_step(replace(run, reports=(replace(summary, control=timed),)))
    assert plain.phases == (0.8, 0.0, 0.0)
    assert describe_steps(summary) == ", forwards 0 to 39"
    assert describe_control(tmp_path) == (
        "by the clock of rank 0: 8.00 ms a forward recorded, 6.00 ms in 19 forwards that were not"
        " recorded",
    )
    baseline = {"step_ms": 3.0, "profiled_step_ms": 6.0, "ratio": 2.0, "mean_ms": 3.0}
    plain = find_plain_step(replace(run, baseline=baseline))
    assert (plain, plain.find_ms(30.0)) == (PlainStep(ratio=0.5), 15.0)
    assert find_plain_step(replace(run, reports=(replace(summary, control={}),))) == PlainStep()


@pytest.mark.parametrize(
    ("control", "count", "reason"),
    [
        (None, 6, "the program ended 3 steps after it, while nsys made its report"),
        (4, 6, "the program ended 2 steps after nsys' work on its report, 3 count"),
        (4, 7, ""),
        (None, 3, ""),
    ],
)
def test_a_missing_control_is_explained(
    tmp_path: Path, control: int | None, count: int, reason: str
) -> None:
    """The program that is recorded to its end had no step to be a control."""
    facts = {"recorded": [0, 3], "control": control, "ms": [2.0] * count}
    write(tmp_path, json.dumps(facts))
    run = RunRecord(id="r", launcher="host", command=())
    record.save_run(run, tmp_path)
    lines = describe_control(tmp_path)
    assert [reason in line for line in lines] == ([True] if reason else [])
    record.save_run(replace(run, baseline={"step_ms": 7.0}), tmp_path)
    assert describe_control(tmp_path) == ()
