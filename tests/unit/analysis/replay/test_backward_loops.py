"""The backward pass of a loop with reads, which goes with the loop."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COPY
from gpu_profile.analysis.replay.edits.loops.tiny_kernels import join_tiny_kernels
from gpu_profile.analysis.replay.edits.waits import describe_waits, remove_waits
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph, make_pairs
from tests.unit.analysis.replay.small_runs import (
    ON_DEVICE,
    SYNC,
    Call,
    Op,
    join,
    make_rank,
)
from tests.unit.analysis.replay.test_plan import predict_us

STEPS, TURNS = 5, 8
FORWARD_US, PASS_US = 21 * TURNS, 30


def make_training(passes: int, thread: int = 1) -> RankGraph:
    """Each step: eight turns of 21 us, each with a launch of 5 us, a kernel of 4, a copy of 4 bytes
    and a wait for it. Then a thread makes `passes` of three launches of 10 us: two kernels and a
    copy on the GPU, of 2 us each.
    """
    step_ns = 1_000 * (FORWARD_US + PASS_US * passes)
    calls, ops, returns = list[Call](), list[Op](), list[tuple[int, int]]()
    for step in range(STEPS):
        for now in range(step * step_ns, step * step_ns + 1_000 * FORWARD_US, 21_000):
            ops.append(Op(now + 6_000, now + 10_000, len(calls), step))
            calls.append(Call(now, now + 5_000, step))
            ops.append(Op(now + 11_000, now + 13_000, len(calls), step, COPY, bytes=4))
            returns.append((len(ops) - 1, len(calls) + 1))
            calls.append(Call(now + 5_000, now + 10_000, step))
            calls.append(Call(now + 10_000, now + 21_000, step, SYNC, waits=True))
    first = len(calls)
    for step in range(STEPS):
        for number in range(3 * passes):
            now = step * step_ns + 1_000 * FORWARD_US + 10_000 * number
            name, kind = (ON_DEVICE, COPY) if number % 3 == 2 else (None, 0)
            start = now + 11_000
            ops.append(Op(start, start + 2_000, len(calls), step, kind, name=name))
            calls.append(Call(now, now + 10_000, step))
    return _give_to_thread(make_rank(calls, ops, returns), first, thread)


def _give_to_thread(rank: RankGraph, first: int, thread: int) -> RankGraph:
    """The calls from the `first` on are of this thread: both hand over to each other."""
    in_step, passes = first // STEPS, (len(rank.calls.start) - first) // STEPS
    of_thread = np.where(np.arange(len(rank.calls.start)) < first, 0, thread).astype(np.int32)
    steps = np.arange(STEPS)
    forward, backward = in_step * steps, first + passes * steps
    source = np.r_[forward + in_step - 1, backward[:-1] + passes - 1]
    target = np.r_[backward, forward[1:]]
    links = replace(rank.links, handovers=make_pairs(source, target))
    calls = replace(rank.calls, thread=of_thread)
    return replace(rank, calls=calls, links=links, threads=(7, 8))


@pytest.mark.parametrize(("passes", "left_us"), [(8, 27.1 + 32.6), (4, 27.1 + 17), (11, 5 + 330)])
def test_a_backward_pass_that_comes_as_often_goes_with_its_loop(
    passes: int, left_us: float
) -> None:
    """The kernels of the turns take 27.1 us, fused, and those of eight passes 32.6, of which two
    begin by themselves. Eleven passes are of something else than eight turns: their launches stay,
    behind one of 5 us.
    """
    graph = join(make_training(passes))
    assert predict_us(graph, lambda graph, weights: weights) == FORWARD_US + PASS_US * passes
    assert predict_us(graph, remove_waits()) == pytest.approx(left_us, abs=1)
    assert ("of the backward pass" in describe_waits(graph)) == (passes != 11)


def test_copies_on_the_gpu_are_a_part_of_a_pass() -> None:
    """Of 240 us for the launches of eight passes none is left: their kernels take 32.6 us, and
    begin 11 us after their thread.
    """
    graph = join(make_training(8))
    left_us = predict_us(graph, join_tiny_kernels().apply)
    assert left_us == pytest.approx(FORWARD_US + 11 + 32.6, abs=1)
