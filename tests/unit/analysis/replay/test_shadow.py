"""Host delays scaled to the step of a run that was not recorded; times are counted by hand."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COPY
from gpu_profile.analysis.replay.edits.calls import remove_allocations, remove_pauses
from gpu_profile.analysis.replay.plan.make_plan import make_plan
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.find_shadow import (
    CALIBRATED,
    find_shadow,
    subtract_profiler,
)
from gpu_profile.analysis.replay.shadow.host_scale import TYPICAL_FACTOR
from gpu_profile.analysis.replay.shadow.shadow import Shadow
from gpu_profile.analysis.replay.step_times import SelfTest
from gpu_profile.analysis.replay.weights import Weights
from tests.unit.analysis.replay.small_runs import (
    FREE_ASYNC,
    LAUNCH,
    MALLOC,
    SYNC,
    Call,
    Op,
    join,
    make_rank,
)
from tests.unit.analysis.replay.test_simulate import make_late_host


def make_busy_host(kernel_ns: int) -> RankGraph:
    """Each step: 30 us of host work, a launch of 10 us, and a kernel of `kernel_ns` after it."""
    calls, ops, now, free = list[Call](), list[Op](), 0, 0
    for step in range(8):
        calls.append(Call(now + 30_000, now + 40_000, step))
        start = max(now + 41_000, free + 1_000)
        free = start + kernel_ns
        ops.append(Op(start, free, step, step))
        now += 40_000
    return make_rank(calls, ops)


def make_late_host_of_nsys() -> RankGraph:
    return replace(make_late_host(), profiler=CALIBRATED)


def subtract(rank: RankGraph, control_us: float) -> Shadow:
    return subtract_profiler(Replay(join(rank), SelfTest(0.0)), control_us / 1e3)


@pytest.mark.parametrize("control_us", [36, 30, 20])
def test_a_host_that_limits_the_step_is_scaled_to_the_control(control_us: float) -> None:
    shadow = subtract(make_busy_host(5_000), control_us)
    assert shadow.factor == pytest.approx(control_us / 40, abs=0.01)
    assert shadow.step_ms == pytest.approx(control_us / 1e3, rel=0.01)


@pytest.mark.parametrize(("kernel_us", "control_us", "left_us"), [(5, 30, 28.2), (99, 100, 100)])
def test_what_nsys_takes_in_the_control_is_not_the_programs(
    kernel_us: int, control_us: float, left_us: float
) -> None:
    """One call a step, of 1.8 us. A GPU of 100 us a step hides it."""
    replay = Replay(join(make_busy_host(1_000 * kernel_us)), SelfTest(0.0))
    shadow = find_shadow(replay, control_us / 1e3, 1_800)
    assert shadow is not None
    assert shadow.step_ms == pytest.approx(left_us / 1e3, rel=0.01)
    words = " ".join(make_plan(replay, shadow).to_lines())
    assert ("which takes 0.00 of the 0.03 that were not recorded" in words) == (left_us < 99)


def test_a_pause_is_not_the_profilers() -> None:
    """A pause of 50 us and a launch of 10 us: of a control of 57 us, 7 us are the launch."""
    assert subtract(make_late_host(), 57).factor == pytest.approx(0.7, abs=0.02)


@pytest.mark.parametrize("control_us", [45, 100, 101])
def test_a_step_that_the_gpu_limits_keeps_its_kernels(control_us: float) -> None:
    """A kernel of 99 us, 1 us after the one before: no host makes it shorter, and half of the gap
    is of nsys.
    """
    shadow = subtract(make_busy_host(99_000), control_us)
    assert (shadow.factor, shadow.is_measured) == (TYPICAL_FACTOR, False)
    assert shadow.step_ms == pytest.approx(0.0995)


def test_a_control_that_each_usual_factor_gives_tells_none() -> None:
    """The host takes 40 us a step, and the GPU 38.6. Where kernels get shorter, the host is the
    limit, with 0.65 of 30 us and 2.8 less than the 10 of a launch: 26.7.
    """
    graph = join(make_busy_host(38_600))
    replay = Replay(graph, SelfTest(0.0))
    shadow = subtract_profiler(replay, 0.0395)
    assert (shadow.factor, shadow.is_measured) == (TYPICAL_FACTOR, False)
    assert shadow.step_ms == pytest.approx(0.0386)
    shorter = shadow.weights.with_work(np.arange(len(graph.work)), 5_000)
    assert replay.predict_step(shorter) == pytest.approx(0.0267, abs=1e-4)


@pytest.mark.parametrize("control_us", [30, 25])
def test_a_control_that_the_gpu_limits_tells_the_most_that_the_host_takes(
    control_us: float,
) -> None:
    """The host takes 40 us a step, and the GPU 30: up to 0.76 of the host's work it is the limit.
    The host may take any part from 0.39 on, the least of known programs.
    """
    shadow = subtract(make_busy_host(30_000), control_us)
    assert shadow.step_ms == pytest.approx(0.03)
    assert shadow.factors == pytest.approx((0.39, 0.76), abs=0.01)
    assert shadow.factor == pytest.approx(0.58, abs=0.01)


def test_allocations_explain_a_control_that_no_other_work_of_the_host_does() -> None:
    """Each step: cudaMalloc takes 100 us, a launch 10; of a call 20 us at most are the profiler's,
    which leaves 86 us. A control that is longer has longer ones, too.
    """
    calls, ops = list[Call](), list[Op]()
    for step in range(8):
        now = 110_000 * step
        calls.append(Call(now, now + 100_000, step, MALLOC))
        calls.append(Call(now + 100_000, now + 110_000, step))
        ops.append(Op(now + 111_000, now + 116_000, 2 * step + 1, step))
    rank = make_rank(calls, ops)
    assert subtract(rank, 80).step_ms == pytest.approx(0.08, rel=0.02)
    assert subtract(rank, 150).step_ms == pytest.approx(0.15, rel=0.02)
    assert subtract(rank, 10).step_ms == pytest.approx(0.086, rel=0.02)


def make_staged_copy(size: int) -> RankGraph:
    """Each step: a launch, a kernel of 38 us, and a copy of this size, 60 us, that blocks."""
    calls, ops, returns = list[Call](), list[Op](), list[tuple[int, int]]()
    for step in range(8):
        now = 110_000 * step
        calls.append(Call(now, now + 10_000, step))
        calls.append(Call(now + 10_000, now + 110_000, step, waits=True))
        ops.append(Op(now + 11_000, now + 49_000, 2 * step, step))
        ops.append(Op(now + 50_000, now + 110_000, 2 * step + 1, step, COPY, bytes=size))
        returns.append((2 * step + 1, 2 * step + 1))
    return make_rank(calls, ops, returns)


def test_copies_that_the_driver_stages_explain_a_control_that_the_host_does_not() -> None:
    """A launch of 10 us takes 6.5 without the profiler, a kernel 38: of 80 us 33 are the copy's. A
    control that is longer has longer copies, too.
    """
    shadow = subtract(make_staged_copy(1_000_000), 80)
    assert shadow.step_ms == pytest.approx(0.08, rel=0.02)
    assert shadow.factor == TYPICAL_FACTOR
    assert subtract(make_staged_copy(1_000), 80).step_ms > 0.1
    assert subtract(make_staged_copy(1_000_000), 30).step_ms > 0.1
    assert subtract(make_staged_copy(1_000_000), 150).step_ms == pytest.approx(0.15, rel=0.02)
    assert subtract(make_staged_copy(1_000), 150).step_ms < 0.12


def make_late_returns(before_wait: int) -> RankGraph:
    """Each step: a launch, a kernel that ends at 61 us, a call of this name, and a wait that
    returns 100 us after the kernel's end.
    """
    calls, ops, returns = list[Call](), list[Op](), list[tuple[int, int]]()
    for step in range(8):
        now = 161_000 * step
        calls.append(Call(now, now + 10_000, step))
        calls.append(Call(now + 10_000, now + 12_000, step, before_wait))
        calls.append(Call(now + 12_000, now + 161_000, step, SYNC, waits=True))
        ops.append(Op(now + 11_000, now + 61_000, 3 * step, step))
        returns.append((step, 3 * step + 2))
    return make_rank(calls, ops, returns)


@pytest.mark.parametrize(("before_wait", "kept_us"), [(FREE_ASYNC, 61), (LAUNCH, 161)])
def test_a_late_wait_after_frees_into_a_pool_gives_memory_back(
    before_wait: int, kept_us: float
) -> None:
    graph = join(make_late_returns(before_wait))
    replay = Replay(graph, SelfTest(0.0))
    kept = remove_allocations()(graph, Weights.of(graph))
    assert replay.predict_step(kept) == pytest.approx(kept_us / 1e3)


def test_memory_that_a_pool_gives_back_explains_a_control() -> None:
    assert subtract(make_late_returns(FREE_ASYNC), 100).step_ms == pytest.approx(0.1, rel=0.02)
    assert subtract(make_late_returns(LAUNCH), 100).step_ms > 0.15


def test_a_control_that_is_longer_than_the_recorded_step_has_longer_pauses() -> None:
    """A pause of 50 us and a launch of 10: of a control of 110 us, 100 are the pause. Without it
    the kernels of 20 us set the step.
    """
    graph = join(make_late_host())
    replay = Replay(graph, SelfTest(0.0))
    shadow = subtract_profiler(replay, 0.11)
    assert shadow.factor == 1
    assert shadow.step_ms == pytest.approx(0.11, rel=0.02)
    assert shadow.pause_factor == pytest.approx(2, abs=0.01)
    assert replay.predict_step(remove_pauses()(graph, shadow.weights)) == pytest.approx(0.02)
    (head, *_) = make_plan(replay, shadow).to_lines()
    assert "0.06 ms recorded, 0.11 without the profiler: there the host's pauses are 2.0" in head


def test_a_control_with_longer_pauses_does_not_pay_for_the_profiler() -> None:
    """The launch of 10 us takes 6.5 without nsys: of a control of 110 us, 103.5 are the pause."""
    shadow = subtract(make_late_host_of_nsys(), 110)
    assert shadow.factor == TYPICAL_FACTOR
    assert shadow.step_ms == pytest.approx(0.11, rel=0.02)
    assert shadow.pause_factor == pytest.approx(103.5 / 50, abs=0.05)


def test_a_control_that_no_faster_launch_reaches_has_shorter_pauses() -> None:
    """A pause of 50 us and a launch of 10, which takes 6.5 without the profiler: of a control of 40
    us, 33.5 are the pause.
    """
    replay = Replay(join(make_late_host()), SelfTest(0.0))
    shadow = subtract_profiler(replay, 0.04)
    assert shadow.step_ms == pytest.approx(0.04, rel=0.02)
    assert shadow.factor == 0.65
    assert shadow.pause_factor == pytest.approx(0.67, abs=0.02)


def test_pauses_that_the_control_cannot_hold_were_in_the_recorded_steps_alone() -> None:
    """A pause of 50 us; without it the kernels of 20 us set the step."""
    shadow = subtract(make_late_host(), 19)
    assert shadow.step_ms == pytest.approx(0.02)
    assert (shadow.factor, shadow.pause_factor) == (TYPICAL_FACTOR, 0)


def test_a_control_between_no_pauses_and_a_fifth_of_them_holds_a_part() -> None:
    """A pause of 1 ms and a launch of 10 us, which takes 6.5 without the profiler: of a control of
    100 us, 93.5 are the pause. A fifth of it would be 200.
    """
    calls, ops = list[Call](), list[Op]()
    for step in range(8):
        now = 1_010_000 * step + 1_000_000
        calls.append(Call(now, now + 10_000, step, silent=1_000_000))
        ops.append(Op(now + 11_000, now + 31_000, step, step))
    shadow = subtract(make_rank(calls, ops), 100)
    assert shadow.step_ms == pytest.approx(0.1, rel=0.02)
    assert shadow.factor == TYPICAL_FACTOR
    assert shadow.pause_factor == pytest.approx(0.0935, abs=0.01)


def test_few_pauses_are_not_left_out_for_a_control_that_is_a_little_shorter() -> None:
    """Of 60 us, 10 are the pause and 50 wait for the GPU: 4 us less are no sign of the pause."""
    calls, ops, returns = list[Call](), list[Op](), list[tuple[int, int]]()
    for step in range(8):
        now = 60_000 * step + 10_000
        calls.append(Call(now, now + 2_000, step, silent=10_000))
        calls.append(Call(now + 2_000, now + 50_000, step, SYNC, waits=True))
        ops.append(Op(now + 3_000, now + 47_000, 2 * step, step))
        returns.append((step, 2 * step + 1))
    assert subtract(make_rank(calls, ops, returns), 50).pause_factor == 1


def test_without_pauses_none_explains_a_shorter_control() -> None:
    assert subtract(make_busy_host(30_000), 28).pause_factor == 1


def test_what_the_profiler_does_not_explain_is_the_pauses() -> None:
    """A pause of 50 us and a launch of 10: the control would ask for a launch of 3 us."""
    shadow = subtract(make_late_host_of_nsys(), 53)
    assert shadow.factor == 0.5
    assert shadow.pause_factor == pytest.approx(48 / 50, abs=0.02)


def test_the_range_of_the_price_is_that_of_nsys() -> None:
    shadow = subtract(make_late_host(), 53)
    assert shadow.factor == pytest.approx(0.3, abs=0.02)
    assert shadow.pause_factor == 1


def test_a_longer_control_of_a_program_without_pauses_has_a_slower_host() -> None:
    """One that is twice as slow, or that the GPU hides, does not explain it."""
    shadow = subtract(make_busy_host(5_000), 50)
    assert shadow.factor == pytest.approx(1.25, abs=0.01)
    assert shadow.pause_factor == 1
    assert shadow.step_ms == pytest.approx(0.05, rel=0.01)
    assert subtract(make_busy_host(5_000), 80).step_ms == pytest.approx(0.04)
    assert subtract(make_busy_host(60_000), 65).step_ms == pytest.approx(0.0605)
