"""Loops of tiny kernels with a long one in each pass, which a batch runs side by side."""

import pytest

from gpu_profile.analysis.replay.edits.loops.tiny_kernels import join_tiny_kernels
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from tests.unit.analysis.replay.small_runs import ALL_REDUCE, KERNEL, Call, Op, join, make_rank
from tests.unit.analysis.replay.test_plan import predict_us

TINY = 10


def make_loop(passes: int, blocks: int, others: int = TINY) -> RunGraph:
    """Three steps of passes, each of so many kernels of 2 us and one of 66 us and so many blocks,
    launched in 10 us.
    """
    calls, ops, now, end = list[Call](), list[Op](), 0, 0
    for step in range(3):
        for _ in range(passes):
            for us in (*[2] * others, 66):
                name = KERNEL if us == 2 else ALL_REDUCE
                begin = max(now + 11_000, end)
                end = begin + 1_000 * us
                size = 1 if us == 2 else blocks
                ops.append(Op(begin, end, len(ops), step, blocks=size, threads=1_024, name=name))
                calls.append(Call(now, now + 10_000, step))
                now += 10_000
    return join(make_rank(calls, ops))


@pytest.mark.parametrize(
    ("graph", "left_us"),
    [
        (make_loop(8, blocks=1), 66 + 7 * 66 / 132),
        (make_loop(8, blocks=33), 8 * 66),
        (make_loop(8, blocks=1, others=6), 8 * 66),
        (make_loop(4, blocks=1), 4 * 66),
    ],
)
def test_a_batch_runs_the_long_kernels_of_its_passes_side_by_side(
    graph: RunGraph, left_us: float
) -> None:
    """Not those of many blocks, nor where one of seven launches is long, or of four passes."""
    bounds = join_tiny_kernels().bounds
    assert bounds
    assert predict_us(graph, join_tiny_kernels().apply) == pytest.approx(left_us, abs=60)
    assert predict_us(graph, bounds[0]) > 4 * 66
