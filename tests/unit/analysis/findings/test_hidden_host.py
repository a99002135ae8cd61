"""Costs of findings where the GPU hides the host, and a fix makes the GPU faster."""

from dataclasses import replace

import pytest

from gpu_profile.analysis.findings.evidence.small_grids import FEW_BLOCKS
from gpu_profile.analysis.findings.facts.rare_pauses import RareCauses
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.replayed_costs import replay_costs
from gpu_profile.analysis.replay.plan.make_plan import make_plan
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.find_shadow import subtract_profiler
from gpu_profile.analysis.replay.step_times import SelfTest
from tests.unit.analysis.replay.small_runs import join
from tests.unit.analysis.replay.test_shadow import make_busy_host

FINDING = Finding("unused_gpu", (0,), FEW_BLOCKS, (), "")


@pytest.mark.parametrize(
    ("kernel_us", "shares", "words"),
    [
        (99, (0.50, 0.92), "the GPU hides the host, whose work is taken as 65 %"),
        (30, (0.39, 0.76), "the GPU hides the host, which takes 39 to 76 % of its recorded time"),
    ],
)
def test_a_gain_has_a_range_by_what_the_host_may_take(
    kernel_us: int, shares: tuple[float, float], words: str
) -> None:
    """A host of 40 us a step, of which 2.8 of each launch and more may be the profiler's, and a
    kernel of few blocks, which more blocks shorten to 20 us at the least.
    """
    rank = make_busy_host(1_000 * kernel_us)
    blocks = replace(rank.ops, blocks=0 * rank.ops.start + 8)
    replay = Replay(join(replace(rank, ops=blocks)), SelfTest(0.0))
    shadow = subtract_profiler(replay, kernel_us / 1e3)
    assert shadow.factors == pytest.approx(shares, abs=0.01)
    plan = make_plan(replay, shadow)
    hidden, known = (
        replay_costs([FINDING], replay, plan, each, RareCauses({}, {}))[0].range_ms
        for each in (shadow, replace(shadow, factors=None))
    )
    assert hidden is not None
    assert known is not None
    assert hidden[0] <= known[0] <= known[1] < hidden[1]
    assert words in plan.to_lines()[0]
