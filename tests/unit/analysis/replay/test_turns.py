"""Kernels of two streams that take turns on the multiprocessors."""

import numpy as np
import pytest

from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.simulate import simulate
from gpu_profile.analysis.replay.weights import Weights
from tests.unit.analysis.replay.small_runs import Call, Op, join, make_rank

STEPS, STEP_NS, KERNEL_NS = 4, 2_000_000, 900_000
FIRST, SECOND = 4, 5
"""The kernels of the third step."""


def make_run(overlap: int, blocks: int) -> RunGraph:
    """Two kernels a step on two streams, launched long before. The second one begins `overlap` ns
    before the end of the first one.
    """
    calls, ops = list[Call](), list[Op]()
    for number in range(2 * STEPS):
        step, stream = divmod(number, 2)
        calls.append(Call(10_000 * number, 10_000 * number + 5_000, step))
        start = 1_000_000 + step * STEP_NS + stream * (KERNEL_NS - overlap)
        ops.append(Op(start, start + KERNEL_NS, number, step, stream=stream, blocks=blocks))
    return join(make_rank(calls, ops))


def measure_earlier(graph: RunGraph) -> int:
    """How much earlier (ns) the second kernel begins where the first one takes half as long."""
    half = graph.work[[FIRST]] // 2
    time = simulate(graph, Weights.of(graph).with_work(np.array([FIRST]), half))
    node = graph.nodes.op_start[SECOND]
    return int(graph.time[node] - time[node])


@pytest.mark.parametrize("overlap", [0, 15_000])
def test_a_kernel_that_begins_in_the_tail_of_another_one_waits_for_it(overlap: int) -> None:
    assert measure_earlier(make_run(overlap, 4096)) == pytest.approx(KERNEL_NS / 2, rel=0.02)


@pytest.mark.parametrize(("overlap", "blocks"), [(100_000, 4096), (15_000, 40)])
def test_kernels_that_overlap_or_leave_room_take_no_turns(overlap: int, blocks: int) -> None:
    assert measure_earlier(make_run(overlap, blocks)) == 0
