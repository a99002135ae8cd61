"""Calls of a model in rows, with the same launches: a batch of them is one call."""

from dataclasses import replace

import pytest

from gpu_profile.analysis.replay.edits.causes import LAUNCHES
from gpu_profile.analysis.replay.edits.loops.repeated_calls import describe_repeated_calls
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from tests.unit.analysis.replay.small_runs import (
    ALL_REDUCE,
    FILL,
    KERNEL,
    Call,
    Op,
    join,
    make_rank,
)
from tests.unit.analysis.replay.test_plan import predict_us

ROWS, LAYERS = 6, (KERNEL, FILL, KERNEL)


def make_calls(
    row: int, place: str = "forward", us: int = 2, blocks: int = 66, left_out: int = -1
) -> RankGraph:
    """Rows of forwards, each a step of three launches of 10 us, of kernels of `us`; after a row one
    launch more, of another kernel. `left_out`: the number of a forward without its last launch.
    """
    calls, ops, now, end = list[Call](), list[Op](), 0, 0
    for step in range(ROWS * row):
        is_last = step % row == row - 1
        names = LAYERS[: 2 if step == left_out else 3]
        for name in (*names, *[ALL_REDUCE] * is_last):
            begin = max(now + 11_000, end)
            end = begin + 1_000 * us
            ops.append(Op(begin, end, len(ops), step, blocks=blocks, threads=1_024, name=name))
            calls.append(Call(now, now + 10_000, step))
            now += 10_000
    return replace(make_rank(calls, ops), places=(place,))


@pytest.mark.parametrize(("row", "left_us"), [(2, 20), (3, 13.333), (4, 10)])
def test_of_equal_calls_in_a_row_one_is_left(row: int, left_us: float) -> None:
    """Its three launches of 10 us and the one after it, in as many steps as there are calls."""
    graph = join(make_calls(row))
    assert predict_us(graph, LAUNCHES.apply) == pytest.approx(left_us, rel=0.1)
    assert describe_repeated_calls(graph).startswith(f"the model is called {row} times in a row")


@pytest.mark.parametrize(("blocks", "left_us"), [(132, 105), (33, 71)])
def test_a_batch_uses_idle_multiprocessors(blocks: int, left_us: float) -> None:
    """Seven kernels of 30 us in two steps; three of them take a quarter of that in a batch."""
    graph = join(make_calls(2, us=30, blocks=blocks))
    assert predict_us(graph, LAUNCHES.apply) == pytest.approx(left_us, rel=0.1)


@pytest.mark.parametrize(
    "rank",
    [make_calls(1), make_calls(5), make_calls(2, "backward"), make_calls(3, left_out=7)],
)
def test_other_steps_are_launched_as_a_graph(rank: RankGraph) -> None:
    """Each has something after it, or five stand in a row, as layers do; steps are no forwards; or
    calls differ.
    """
    graph = join(rank)
    assert not describe_repeated_calls(graph)
    assert predict_us(graph, LAUNCHES.apply) < 10
