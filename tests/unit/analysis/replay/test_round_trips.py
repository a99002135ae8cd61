"""Values that a loop reads and takes back: the host's work between goes with the waits."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COPY
from gpu_profile.analysis.replay.edits.waits import describe_waits, remove_waits
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from tests.unit.analysis.replay.small_runs import (
    FILL,
    KERNEL,
    SYNC,
    TO_DEVICE,
    Call,
    Op,
    join,
    make_rank,
)
from tests.unit.analysis.replay.test_plan import predict_us

STEPS = 6


def make_trips(
    trips: int,
    size: int = 64,
    *,
    kernels: Sequence[int] = (KERNEL, FILL),
    launches_between: bool = False,
    pause: int = 0,
) -> RankGraph:
    """Each step has `trips` of: a launch of 10 us of a kernel of 2, one of `kernels` by turns, a
    copy of 10 to the host and a wait of 10 for it, 100 us of work, of which `pause` is one, and a
    copy of 10 back; or a launch in the middle of that work.
    """
    calls, ops, returns, now = list[Call](), list[Op](), list[tuple[int, int]](), 0
    for step in range(STEPS):
        for number in range(trips):
            name = kernels[number % len(kernels)]
            ops.append(Op(now + 11_000, now + 13_000, len(calls), step, name=name))
            calls.append(Call(now, now + 10_000, step))
            returns.append((len(ops), len(calls) + 1))
            ops.append(Op(now + 21_000, now + 22_000, len(calls), step, COPY, bytes=64))
            calls.append(Call(now + 10_000, now + 20_000, step))
            calls.append(Call(now + 20_000, now + 30_000, step, SYNC, waits=True))
            now += 80_000
            if launches_between:
                ops.append(Op(now + 11_000, now + 13_000, len(calls), step))
                calls.append(Call(now, now + 10_000, step))
            now += 50_000
            begin = now + 11_000
            ops.append(Op(begin, begin + 1_000, len(calls), step, COPY, bytes=size, name=TO_DEVICE))
            calls.append(Call(now, now + 10_000, step))
            now += 10_000
    rank = make_rank(calls, ops, returns)
    is_back = np.arange(len(calls)) % (len(calls) // STEPS // trips) == 3
    return replace(rank, calls=replace(rank.calls, silent=np.where(is_back, pause, 0)))


@pytest.mark.parametrize(
    ("rank", "left_us"),
    [
        (make_trips(6), 60),
        (make_trips(6, pause=100_000), 660),
        (make_trips(5), 600),
        (make_trips(6, kernels=[KERNEL]), 720),
        (make_trips(6, size=100_000), 720),
        (make_trips(6, launches_between=True), 720),
    ],
)
def test_work_between_a_read_and_a_copy_back_goes_with_the_waits(
    rank: RankGraph, left_us: float
) -> None:
    """A trip of 140 us keeps its first launch, and 100 us where the host pauses. Five trips are too
    few; after equal launches the next item of a loop may come; a large copy is a batch, and what is
    launched between has another reason.
    """
    graph = join(rank)
    assert predict_us(graph, remove_waits()) == left_us
    is_told = describe_waits(graph).startswith("6 times a step the host reads a value, works on it")
    assert is_told == (left_us == 60)
