"""Loops that copy to the GPU in each pass: one pass is left, with its copy, launches and wait."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COPY
from gpu_profile.analysis.replay.changes import combine
from gpu_profile.analysis.replay.edits.calls import free_host
from gpu_profile.analysis.replay.edits.loops.copy_loops import describe_copy_loops
from gpu_profile.analysis.replay.edits.loops.tiny_kernels import join_tiny_kernels, launches_loops
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph, make_pairs, pick_rows
from tests.unit.analysis.replay.small_runs import (
    SYNC,
    TO_DEVICE,
    TO_HOST,
    Call,
    Op,
    join,
    make_rank,
)
from tests.unit.analysis.replay.test_plan import predict_us

STEPS = 6


def make_loop(
    passes: Sequence[int], size: int = 64, direction: int = TO_DEVICE, kernel_us: int = 2
) -> RankGraph:
    """Each step: a launch of 1 ms, of a kernel of 30 us, and for each pass a copy of 10 us, a wait
    of 10 for it, and as many launches of 10 as it says, of kernels of 2 us; but the first one of a
    pass takes `kernel_us`.
    """
    calls, ops, returns, now = list[Call](), list[Op](), list[tuple[int, int]](), 0
    for step in range(STEPS):
        ops.append(Op(now + 1_001_000, now + 1_031_000, len(calls), step))
        calls.append(Call(now, now + 1_000_000, step))
        now += 1_000_000
        for launches in passes:
            returns.append((len(ops), len(calls) + 1))
            begin = now + 11_000
            ops.append(Op(begin, begin + 1_000, len(calls), step, COPY, bytes=size, name=direction))
            calls.append(Call(now, now + 10_000, step))
            calls.append(Call(now + 10_000, now + 20_000, step, SYNC, waits=True))
            now += 20_000
            for number in range(launches):
                end = now + 11_000 + 1_000 * (2 if number else kernel_us)
                ops.append(Op(now + 11_000, end, len(calls), step))
                calls.append(Call(now, now + 10_000, step))
                now += 10_000
    return make_rank(calls, ops, returns)


@pytest.mark.parametrize(
    ("passes", "left_us"),
    [
        ([3] * 8, 1_050),
        ([2, 3, 3, 3, 2, 3, 2, 3], 1_051),
        ([3] * 5, 1_250),
        ([1, 40, 2, 30, 1, 60, 2, 50], 1_398),
    ],
)
def test_of_a_loop_that_copies_in_each_pass_one_is_left(passes: list[int], left_us: float) -> None:
    """A pass of three launches takes 50 us. Five passes are too few, and copies that stand by
    chance between launches are no loop: rows of these lose launches only.
    """
    graph = join(make_loop(passes))
    assert predict_us(graph, join_tiny_kernels().apply) == pytest.approx(left_us, abs=1)
    assert bool(describe_copy_loops(graph)) == (left_us < 1_060)


@pytest.mark.parametrize(("launches", "is_loop"), [(10, True), (8, False)])
def test_a_pass_may_have_a_few_long_kernels(launches: int, is_loop: bool) -> None:
    """One of eleven launches, with the copy, or one of nine."""
    graph = join(make_loop([launches] * 8, kernel_us=9))
    assert bool(describe_copy_loops(graph)) == is_loop


def test_the_loss_of_a_loop_is_told_once() -> None:
    """With copies, launches and waits; and a program can batch the loop, so it comes first."""
    graph = join(make_loop([3] * 8))
    assert describe_copy_loops(graph).startswith(
        "8 passes a step of a loop that takes values from the host in each pass, with 8 copies and "
        "24 launches: "
    )
    assert launches_loops(graph)


@pytest.mark.parametrize(("size", "direction"), [(64, TO_HOST), (100_000, TO_DEVICE)])
def test_reads_and_large_copies_are_no_values_from_the_host(size: int, direction: int) -> None:
    """What a pass reads may decide about the next one."""
    graph = join(make_loop([3] * 8, size, direction))
    assert predict_us(graph, join_tiny_kernels().apply) == pytest.approx(1_400, abs=1)


def give_copies_away(rank: RankGraph) -> RankGraph:
    """The run whose copies and waits are of another thread, which pauses from one step's loop to
    the next one's, and to which the main thread hands nothing over by a call.
    """
    place_in_step = np.arange(len(rank.calls.start)) % (len(rank.calls.start) // STEPS)
    serves = (place_in_step > 0) & ((place_in_step - 1) % 5 < 2)
    order = np.argsort(serves, kind="stable")
    place = np.argsort(order)
    silent = np.where(place_in_step == 1, 1_000_000, 0)
    calls = pick_rows(replace(rank.calls, silent=silent, thread=serves.astype(np.int32)), order)
    waits = np.flatnonzero(serves)[1::2]
    links = replace(
        rank.links,
        returns=make_pairs(
            rank.links.returns[:, 0].astype(np.int64), place[rank.links.returns[:, 1]]
        ),
        handovers=make_pairs(place[waits], place[waits + 1]),
    )
    ops = replace(rank.ops, call=place[rank.ops.call].astype(np.int32))
    return replace(rank, calls=calls, ops=ops, links=links, threads=(7, 8))


def test_threads_that_serve_a_loop_are_a_part_of_it() -> None:
    """Their pause before it is a wait for the main thread, and no work that stays where that one is
    faster.
    """
    graph = join(give_copies_away(make_loop([3] * 8)))
    assert predict_us(graph, lambda graph, weights: weights) == pytest.approx(1_400, abs=1)
    change = combine((free_host(), join_tiny_kernels().apply))
    assert predict_us(graph, change) == pytest.approx(52, abs=2)
