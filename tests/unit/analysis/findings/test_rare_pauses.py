"""Pauses that come more seldom than the replay has steps, or all in its steps."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.findings.diagnose import judge_run
from gpu_profile.analysis.findings.diagnosed_report import collect_report_facts
from gpu_profile.analysis.findings.facts.rare_pauses import PauseTimes, RareCauses
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.replayed_costs import replay_costs
from gpu_profile.analysis.replay.plan.make_plan import make_plan
from gpu_profile.analysis.replay.plan.plan import Plan
from gpu_profile.analysis.replay.rank.typical_steps import typical_step
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.plain_step import PlainStep
from gpu_profile.analysis.replay.step_times import SelfTest
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.unit.analysis.findings.test_causes import only_of
from tests.unit.analysis.replay.small_runs import join
from tests.unit.analysis.replay.test_plan import make_paused_rank
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank


def pause_in(*numbers: int) -> Callable[[Rank], None]:
    """A pause of 100 ms in these steps."""
    steps = count()

    def pause(rank: Rank) -> None:
        if next(steps) in numbers:
            rank.work(100_000)

    return pause


def log_and_save() -> Callable[[Rank], None]:
    """A pause of 1.2 ms after each step, and of 100 ms after each 24th one."""
    steps = count()

    def pause(rank: Rank) -> None:
        rank.work(100_000 if next(steps) % 24 == 22 else 1_200)

    return pause


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ((30, 50, 70), "hold less of it"),
        ((8, 9, 10), "hold less of it"),
        ((8, 9, 10, 11), "hold more of it"),
    ],
    ids=["after the replayed steps", "before them", "all in them"],
)
def test_a_rare_pause_costs_its_mean_over_all_steps(
    numbers: tuple[int, ...], told: str, tmp_path: Path
) -> None:
    """The host launches 150 us ahead of each kernel of 200 us: it has some steps' lead at most."""
    training = Training(ranks=1, steps=80, host_us=150, after=pause_in(*numbers))
    finding = only_of(training.record(), tmp_path)
    assert (finding.kind, finding.cause) == ("idle", "host")
    assert finding.replayed_ms is not None
    assert 1.5 < finding.cost_ms < 100 * len(numbers) / 79
    assert any(f"the replayed steps, which the plan is of, {told}" in e for e in finding.evidence)


def test_a_control_of_the_replayed_steps_has_no_pause_that_they_lack(tmp_path: Path) -> None:
    """A mean of all steps has the pauses of three of them, as of a checkpoint in each 26th step.
    Before, the host was taken for slower than recorded, and its launches came first.
    """
    training = Training(ranks=1, steps=80, host_us=150, after=pause_in(30, 50, 70))
    with Database.open(training.record().save(tmp_path / "run.sqlite")) as database:
        parts = [collect_report_facts(database, Scope())]
    recorded = judge_run(parts)
    (idle,) = recorded.findings
    assert isinstance(recorded.plan, Plan)
    step_ms = recorded.plan.recorded_ms
    controlled = judge_run(parts, control=PlainStep(step_ms + idle.cost_ms))
    assert isinstance(controlled.plan, Plan)
    assert controlled.plan.step_ms == pytest.approx(step_ms, rel=0.03)
    first = controlled.findings[0]
    assert first.kind == "idle"
    assert first.cost_ms == pytest.approx(idle.cost_ms, rel=0.05)


def test_a_control_has_the_long_pauses_of_each_nth_step(tmp_path: Path) -> None:
    """All three of a recording, for they come regularly, also where each step has a short one.
    Before, two of three were taken for chance, and the rest was not much more than the replayed
    steps had: the control told a slower host.
    """
    training = Training(ranks=1, steps=80, layers=6, host_us=210, after=log_and_save())
    with Database.open(training.record().save(tmp_path / "run.sqlite")) as database:
        parts = [collect_report_facts(database, Scope())]
    recorded = judge_run(parts)
    assert isinstance(recorded.plan, Plan)
    step_ms, missing_ms = recorded.plan.recorded_ms, 98.8 * 3 / 79
    controlled = judge_run(parts, control=PlainStep(step_ms + missing_ms))
    assert isinstance(controlled.plan, Plan)
    assert controlled.plan.step_ms == pytest.approx(step_ms, rel=0.03)
    idle = controlled.findings[0]
    assert idle.kind == "idle"
    assert idle.cost_ms == pytest.approx(1.2 + missing_ms, rel=0.05)


def test_rare_pauses_are_no_loss_of_slow_launches(tmp_path: Path) -> None:
    """The short pause of each step is one with launches of 500 us. Before, so were the long ones,
    which no replayed step holds, and `idle` was left out.
    """
    training = Training(ranks=1, steps=80, layers=24, host_us=500, after=log_and_save())
    with Database.open(training.record().save(tmp_path / "run.sqlite")) as database:
        found = judge_run([collect_report_facts(database, Scope())]).findings
    assert [finding.kind for finding in found] == ["host_bound", "idle"]
    idle = found[1]
    assert not any("the same loss" in line for line in idle.evidence)


def test_a_longer_control_has_longer_rare_pauses(tmp_path: Path) -> None:
    """As of files that a program writes in each 26th step, slower than when it was recorded: no
    slower host explains a control that is some times as long as the replayed steps.
    """
    training = Training(ranks=1, steps=80, host_us=150, after=pause_in(30, 50, 70))
    with Database.open(training.record().save(tmp_path / "run.sqlite")) as database:
        parts = [collect_report_facts(database, Scope())]
    recorded = judge_run(parts)
    (idle,) = recorded.findings
    assert isinstance(recorded.plan, Plan)
    control_ms = recorded.plan.recorded_ms + 2 * idle.cost_ms
    first = judge_run(parts, control=PlainStep(control_ms)).findings[0]
    assert first.kind == "idle"
    assert first.cost_ms == pytest.approx(2 * idle.cost_ms, rel=0.05)


def test_a_pause_that_two_steps_have_is_in_no_control() -> None:
    assert PauseTimes(7.6, 0.0).missing_ms == 0
    assert PauseTimes(7.6, 0.0, often_ms=2.5).missing_ms == 7.6
    assert PauseTimes(7.6, 3.0, often_ms=7.0).missing_ms == 0


def test_a_quarter_more_in_all_steps_is_rare_unless_a_control_tells_the_step() -> None:
    assert PauseTimes(4.66, 2.02).correct(2.02) == pytest.approx(4.66)
    assert PauseTimes(2.6, 2.0).correct(2.0) == pytest.approx(2.6)
    assert PauseTimes(2.4, 2.0).correct(2.0) == 2.0
    assert PauseTimes(4.66, 2.02, has_control=True).correct(2.02) == 2.02


def test_rare_pauses_of_one_rank_hold_the_others_up() -> None:
    """As where rank 1 alone saves a checkpoint: the ranks' mean would be 0.12 ms."""
    replay = Replay(join(make_paused_rank(0), make_paused_rank(1)), SelfTest(0.0))
    pauses = {0: PauseTimes(0.0, 0.0), 1: PauseTimes(0.2, 0.045)}
    finding = Finding("idle", (0, 1), "host", (), "")
    plan = make_plan(replay)
    costs = [
        replay_costs([finding], replay, plan, None, RareCauses(each, {}))[0].replayed_ms
        for each in ({}, pauses)
    ]
    assert costs == pytest.approx([0.045, 0.2])


def test_steps_that_are_slow_three_times_are_a_part_of_the_typical_step() -> None:
    """As a log in each tenth step is, and a step that is slow once or twice is not."""
    steps = np.full(40, 20)
    steps[:2] = 100
    assert typical_step(steps) == 20
    steps[2] = 100
    assert typical_step(steps) == 26
