"""How fast the host is, by the times of its phases; graphs and times are made by hand."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_profile.analysis.replay.plan.make_plan import make_plan
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph, make_pairs
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.find_shadow import find_shadow
from gpu_profile.analysis.replay.shadow.host_scale import FACTORS
from gpu_profile.analysis.replay.shadow.plain_step import PlainStep, Ratios
from gpu_profile.analysis.replay.shadow.shadow import Shadow
from gpu_profile.analysis.replay.shadow.timed_phases import TimedHost, measure_host
from gpu_profile.analysis.replay.step_times import SelfTest
from gpu_profile.analysis.replay.weights import Weights
from tests.unit.analysis.replay.small_runs import SYNC, Call, Op, join, make_rank

PLACES = ("forward", "backward", "optimizer AdamW group 1")


def make_phases(
    pause_us: int = 0, wait_us: int = 0, kernel_us: int = 5, places: tuple[str, ...] = PLACES
) -> RankGraph:
    """Each step has a launch of 10 us in each place, after 30 us of host work, and a kernel after
    it. In the forward the host also pauses before it, and waits after it, in a call of that time.
    """
    calls, ops, place, now, free = list[Call](), list[Op](), list[int](), 0, 0
    for step in range(8):
        for phase in range(len(places)):
            silent = 0 if phase else 1_000 * pause_us
            now += 30_000 + silent
            calls.append(Call(now, now + 10_000, step, silent=silent))
            now += 10_000
            start = max(now + 1_000, free + 1_000)
            free = start + 1_000 * kernel_us
            ops.append(Op(start, free, len(calls) - 1, step))
            place.append(phase)
            if wait_us and not phase:
                calls.append(Call(now, now + 1_000 * wait_us, step, SYNC, waits=True))
                place.append(phase)
                now += 1_000 * wait_us
    rank = make_rank(calls, ops)
    of_calls = np.array(place, np.int32)
    return replace(rank, places=places, calls=replace(rank.calls, place=of_calls))


def measure(rank: RankGraph, ratios: Ratios) -> TimedHost | None:
    return measure_host(join(rank), ratios)


def find(rank: RankGraph, control_us: float, ratios: Ratios) -> tuple[Replay, Shadow]:
    replay = Replay(join(rank), SelfTest(0.0))
    shadow = find_shadow(replay, control_us / 1e3, 0, ratios)
    assert shadow is not None
    return replay, shadow


@pytest.mark.parametrize(
    ("ratios", "factor", "phases"),
    [
        ((0.6, 0.0, 0.0), 0.6, ("forward",)),
        ((0.0, 0.0, 0.8), 0.8, ("optimizer",)),
        ((0.6, 0.0, 0.8), 0.7, ("forward", "optimizer")),
        ((0.6, 0.9, 0.6), 0.7, ("forward", "backward", "optimizer")),
        ((0.6, 1.13, 0.8), 0.7, ("forward", "optimizer")),
    ],
)
def test_phases_count_by_their_recorded_time(
    ratios: Ratios, factor: float, phases: tuple[str, ...]
) -> None:
    """40 us each, but for the first one of the recording, whose begin is not known."""
    timed = measure(make_phases(), ratios)
    assert timed is not None
    assert timed.factor == pytest.approx(factor, abs=0.01)
    assert timed.phases == phases


def test_a_pause_takes_as_long_in_the_control() -> None:
    """The forward takes 60 us, 20 of them a pause. Of 0.8 of it, 28 are left of 40."""
    timed = measure(make_phases(pause_us=20), (0.8, 0.0, 0.0))
    assert timed is not None
    assert timed.factor == pytest.approx(0.7, abs=0.01)
    assert measure(make_phases(pause_us=60), (0.8, 0.0, 0.0)) is None, "more than half of it"


def test_a_phase_that_waits_does_not_count() -> None:
    """3 us of 43 are few, 10 of 50 are not."""
    few, many = make_phases(wait_us=3), make_phases(wait_us=10)
    timed = measure(few, (0.6, 0.0, 0.0))
    assert timed is not None
    assert timed.factor == pytest.approx((0.6 * 43 - 3) / 40, abs=0.01)
    assert measure(many, (0.6, 0.0, 0.0)) is None
    assert measure(many, (0.6, 0.0, 0.8)) == measure(many, (0.0, 0.0, 0.8))


def test_a_phase_is_of_the_thread_that_makes_most_calls_in_it() -> None:
    """Autograd's thread comes out of its wait while the main thread is in the next forward."""
    rank = make_phases()
    calls = rank.calls
    thread = (calls.step >= 6).astype(np.int32)

    def let_wait(step: int) -> RankGraph:
        waits = (calls.step == step) & (calls.place == 0)
        return replace(rank, threads=(7, 8), calls=replace(calls, thread=thread, waits=waits))

    neither, other, own = (measure(let_wait(step), (0.6, 0.0, 0.0)) for step in (-1, 7, 3))
    assert neither is not None
    assert other == neither
    assert own is not None
    assert own.factor < neither.factor - 0.01


def test_launches_that_wait_for_the_full_queue_do_not_count() -> None:
    """Each launch of a forward returns when a kernel has ended, 5 us after it began. A kernel that
    ended before says nothing.
    """
    rank = make_phases()
    calls, ops = rank.calls, rank.ops
    forwards = np.flatnonzero(calls.place == 0)[1:]
    freeing = forwards - 1
    queue = make_pairs(freeing, forwards)
    early = replace(rank, links=replace(rank.links, queue=queue))
    assert measure(early, (0.6, 0.0, 0.0)) is not None
    end, start = ops.end.copy(), ops.start.copy()
    end[freeing] = calls.start[forwards] + 5_000
    start[freeing] = end[freeing] - 1_000
    late = replace(early, ops=replace(ops, start=start, end=end))
    assert measure(late, (0.6, 0.0, 0.0)) is None


@pytest.mark.parametrize("ratio", [0.0, 0.2, 1.1])
def test_a_ratio_that_is_no_profilers_is_none(ratio: float) -> None:
    assert measure(make_phases(), (ratio, 0.0, 0.0)) is None


def test_phases_without_ranges_or_with_little_work_do_not_count() -> None:
    assert measure(make_phases(places=("", "layer.1")), (0.6, 0.0, 0.6)) is None
    assert measure(make_phases(places=("forward", *["backward"] * 11)), (0.6, 0.0, 0.0)) is None


def test_a_factor_that_gives_the_control_is_taken() -> None:
    """The host takes 120 us a step: 72 at 0.6, and a control of 73 would ask for 0.62."""
    replay, shadow = find(make_phases(), 73, (0.6, 0.0, 0.6))
    assert shadow.factor == pytest.approx(0.6, abs=0.01)
    assert shadow.is_measured
    assert shadow.step_ms == pytest.approx(0.072, rel=0.02)
    words = make_plan(replay, shadow).to_lines()[0]
    assert "takes 60 % of the recorded time, as measured in the forward and the optimizer)" in words
    _, shadow = find(make_phases(), 73, (0.6, 0.6, 0.6))
    words = make_plan(replay, shadow).to_lines()[0]
    assert "as measured in the forward, the backward and the optimizer)" in words


def test_a_control_of_forwards_alone_tells_the_host_and_the_step() -> None:
    """A program without an optimizer: its marks time forwards, and a step is one or several. Of
    three in 120 us the control has 0.6, and so has the host's time in them.
    """
    rank = make_phases(places=("forward",) * 3)
    plain = PlainStep(ratio=0.6, phases=(0.6, 0.0, 0.0))
    replay, shadow = find(rank, 1e3 * plain.find_ms(0.12), plain.phases)
    assert shadow.factor == pytest.approx(0.6, abs=0.01)
    assert shadow.timed_in == ("forward",)
    assert shadow.step_ms == pytest.approx(0.072, rel=0.02)
    words = make_plan(replay, shadow).to_lines()[0]
    assert "takes 60 % of the recorded time, as measured in the forward)" in words


def test_the_control_then_tells_the_pauses_apart() -> None:
    """The host works 120 us and pauses for 60. Of a control of 132 us, 84 are its work at 0.7, and
    the pauses are 48. The control alone would take 0.6 of the work, and all of the pauses.
    """
    rank = make_phases(pause_us=60)
    _, alone = find(rank, 132, (0.0, 0.0, 0.0))
    assert alone.factor == pytest.approx(0.6, abs=0.02)
    assert alone.pause_factor == 1
    replay, shadow = find(rank, 132, (0.0, 0.0, 0.7))
    assert shadow.factor == pytest.approx(0.7, abs=0.01)
    assert shadow.pause_factor == pytest.approx(0.8, abs=0.02)
    assert shadow.timed_in == ("optimizer",)
    words = make_plan(replay, shadow).to_lines()[0]
    assert "takes 70 %, as measured in the optimizer, and the host's pauses are 0.8" in words


def test_a_factor_that_no_pauses_bring_to_the_control_is_none() -> None:
    _, shadow = find(make_phases(), 72, (0.9, 0.0, 0.9))
    assert shadow.factor == pytest.approx(0.61, abs=0.02)
    assert shadow.timed_in == ()


@pytest.mark.parametrize("control_us", [297, 340])
def test_a_host_that_the_gpu_hides_is_as_fast_as_it_was_timed(control_us: float) -> None:
    """Three kernels of 98 us a step, 1 us apart, and a host of 120: at 0.5 it takes 60, which is
    the step once the kernels are short.
    """
    rank = make_phases(kernel_us=98)
    _, alone = find(rank, control_us, (0.0, 0.0, 0.0))
    assert alone.factors == FACTORS
    replay, shadow = find(rank, control_us, (0.5, 0.0, 0.5))
    assert shadow.factor == pytest.approx(0.5, abs=0.01)
    assert shadow.is_measured
    short = shadow.weights.with_work(np.arange(len(replay.graph.work)), 1_000)
    assert replay.predict_step(short) == pytest.approx(0.06, rel=0.05)
    assert replay.predict_step(Weights.of(replay.graph)) == pytest.approx(0.297, rel=0.02)
