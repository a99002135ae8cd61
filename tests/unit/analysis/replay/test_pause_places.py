"""Which pauses of the host a change takes away, by their places in the step."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_profile.analysis.replay.edits.causes import PAUSES
from gpu_profile.analysis.replay.edits.host_work import describe_left_pauses
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.shadow.host_scale import lengthen_pauses
from gpu_profile.analysis.replay.weights import Weights
from tests.unit.analysis.replay.small_runs import NAMES, Call, Op, join, make_rank
from tests.unit.analysis.replay.test_plan import predict_us

STEPS, CALL_US, KERNEL_US = 8, 10, 5
LOADER, AUTOGRAD, OPTIMIZER = 5_000, 100, 120


def make_pauses(pauses_us: list[int]) -> RunGraph:
    """Each step: a launch of 10 us after each of these pauses, of a kernel with a name of its own.

    The first call of a thread began as recorded.
    """
    calls, ops, now = list[Call](), list[Op](), 0
    for step in range(STEPS):
        for place, pause in enumerate(pauses_us):
            silent = 1_000 * pause if calls else 0
            now += silent + 1_000 * CALL_US
            ops.append(Op(now + 1_000, now + 6_000, len(calls), step, name=place))
            calls.append(Call(now - 1_000 * CALL_US, now, step, silent=silent))
    assert len(pauses_us) < len(NAMES)
    return join(make_rank(calls, ops))


@pytest.mark.parametrize(
    ("pauses_us", "left_us"),
    [
        ([LOADER, AUTOGRAD, OPTIMIZER], AUTOGRAD + OPTIMIZER),
        ([LOADER, 2_000, OPTIMIZER], OPTIMIZER),
        ([LOADER, 100, 110, 120, 130], 460),
        ([500, 400, 450, 420, 410], 0),
        ([90, 20], 0),
    ],
    ids=["a loader", "two causes", "many short ones", "one cause in layers", "a large part"],
)
def test_short_pauses_stay_where_one_place_has_the_most(pauses_us: list[int], left_us: int) -> None:
    """They are less than 3 % of the step, and a quarter of the long pause."""
    launches_us = len(pauses_us) * CALL_US
    left = predict_us(make_pauses(pauses_us), PAUSES.apply)
    assert left == pytest.approx(launches_us + left_us, abs=1)


def test_pauses_that_stay_are_told_where_they_are_much_in_all() -> None:
    assert describe_left_pauses(make_pauses([LOADER, AUTOGRAD])) == ""
    line = describe_left_pauses(make_pauses([LOADER, 100, 110, 120, 130]))
    assert line.startswith("short pauses elsewhere, 0.46 ms of a recorded step")


def test_a_thread_that_waits_for_another_one_has_no_longer_pause() -> None:
    """It is silent for 5 ms, and goes on 0.1 ms after what it waits for."""
    graph = make_pauses([LOADER, AUTOGRAD])
    silent = np.where(graph.calls.silent > 0, 1_000 * LOADER, 0)
    graph = replace(graph, calls=replace(graph.calls, silent=silent))
    for factor in (0.0, 2.0):
        weights = lengthen_pauses(graph, Weights.of(graph), factor)
        pauses = graph.nodes.call_start[1:]
        assert weights.delay[pauses] == pytest.approx(factor * graph.delay[pauses])
