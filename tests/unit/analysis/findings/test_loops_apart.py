"""What the loops of the optimizer and the others cost, each alone."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_profile.analysis.findings.facts.rare_pauses import RareCauses
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.replayed_costs import replay_costs
from gpu_profile.analysis.replay.plan.make_plan import make_plan
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.step_times import SelfTest
from tests.unit.analysis.replay.small_runs import join
from tests.unit.analysis.replay.test_plan import make_tiny_kernels

FINDING = Finding("tiny_kernels", (0,), "launch", (), "")
LAUNCHES = 18
"""Of a step of make_tiny_kernels(8): two rows of eight, each with a longer kernel behind it."""


@pytest.mark.parametrize(
    ("places", "lines"),
    [
        (
            ("forward", "optimizer Adam group 0"),
            ["loops in the optimizer gain 0.08 ms a step and loops elsewhere gain 0.08 ms a step"],
        ),
        (("forward", "backward"), []),
        (("optimizer Adam group 0", "optimizer Adam group 1"), []),
    ],
)
def test_loops_of_the_optimizer_are_told_apart(places: tuple[str, str], lines: list[str]) -> None:
    """The step of 0.18 ms takes 0.034 without both loops, as fused kernels are left of each."""
    rank = make_tiny_kernels(8)
    place = np.arange(len(rank.calls.start)) % LAUNCHES // (LAUNCHES // 2)
    calls = replace(rank.calls, place=place.astype(np.int32))
    replay = Replay(join(replace(rank, places=places, calls=calls)), SelfTest(0.0))
    plan = make_plan(replay, None)
    finding = replay_costs([FINDING], replay, plan, None, RareCauses({}, {}))[0]
    assert finding.replayed_ms == pytest.approx(0.146, abs=0.001)
    assert [line for line in finding.evidence if "alone" in line] == [
        f"each alone, {line}" for line in lines
    ]
