"""Calls of a network in one step, with the same launches: a batch of them is one call."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_profile.analysis.replay.edits.causes import SMALL_GRIDS, TINY_LAUNCHES
from gpu_profile.analysis.replay.edits.loops.network_calls import (
    describe_network_calls,
    find_network_calls,
)
from gpu_profile.analysis.replay.edits.loops.tiny_kernels import find_tiny_rows, launches_loops
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from tests.unit.analysis.replay.small_runs import Call, Op, join, make_rank
from tests.unit.analysis.replay.test_plan import predict_us

NAMES = ("embed", "norm", "sm80_xmma_gemm_bf16", "gelu", "add", "scale", "drop", "head", "update")
LAYER, OTHER = (1, 2, 3, 4, 5, 6), (1, 5, 3, 4, 5, 6)
STEPS = 3


def make_network(
    count: int,
    layers: int = 4,
    us: float = 2,
    between: bool = False,
    layer: tuple[int, ...] = LAYER,
) -> RunGraph:
    """Steps with `count` calls of a network: kernels of `us` on 11 of 132 multiprocessors, each
    launched in 10 us. After the last call, or `between` all of them, there is another kernel.
    """
    calls, ops, place, now, end = list[Call](), list[Op](), list[int](), 0, 0
    for step in range(STEPS):
        for number in range(count):
            names = (0, *layer * layers, 7) + (8,) * (between or number == count - 1)
            for name in names:
                end = max(now + 11_000, end) + int(1_000 * us)
                begin = end - int(1_000 * us)
                ops.append(Op(begin, end, len(ops), step, blocks=11, threads=1_024, name=name))
                calls.append(Call(now, now + 10_000, step, name=0))
                place.append(int(name == 8))
                now += 10_000
    rank = make_rank(calls, ops)
    placed = replace(rank.ops, place=np.array(place, np.int32))
    return join(replace(rank, ops=placed, names=NAMES, places=("forward", "")))


@pytest.mark.parametrize(
    ("graph", "left_us"),
    [
        (make_network(6, us=60), 26 * (60 + 5 * 60 / 12)),
        (make_network(5, us=60), 130 * 20),
        (make_network(6, us=60, between=True), 156 * 20),
    ],
)
def test_a_batch_gives_the_kernels_of_six_calls_in_a_row_more_blocks(
    graph: RunGraph, left_us: float
) -> None:
    """The kernels of five calls take their twelfth of the GPU. Those of fewer calls, and of calls
    with another launch between, are spread over twelve times as many multiprocessors.
    """
    assert predict_us(graph, SMALL_GRIDS.apply) == pytest.approx(left_us, rel=0.1)


def test_layers_of_a_network_that_is_called_again_are_no_loop() -> None:
    """A loop over tensors in each call multiplies no matrices, and stays."""
    network, tensors = make_network(4), make_network(4, layer=OTHER)
    assert not len(find_tiny_rows(network).calls)
    assert not launches_loops(network)
    assert launches_loops(tensors)
    assert describe_network_calls(network).startswith("a network is called 4 times a step")
    assert predict_us(tensors, TINY_LAUNCHES.apply) < predict_us(network, TINY_LAUNCHES.apply) / 2


@pytest.mark.parametrize("graph", [make_network(1, layers=24), make_network(4, layers=2)])
def test_one_call_and_calls_without_layers_are_none(graph: RunGraph) -> None:
    """Twenty-four layers are equal, too, but nothing comes once in eight of them."""
    assert not find_network_calls(graph).count
