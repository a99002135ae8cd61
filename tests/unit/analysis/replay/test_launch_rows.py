"""Rows of launches: the passes of loops, and short pauses in them."""

import pytest

from gpu_profile.analysis.activity.activity import COMPUTE, COPY, SET
from gpu_profile.analysis.replay.edits.loops.launch_rows import find_launch_rows
from gpu_profile.analysis.replay.plan.make_plan import make_plan
from gpu_profile.analysis.replay.weights import Weights
from tests.unit.analysis.replay.small_runs import (
    ALL_REDUCE,
    FILL,
    KERNEL,
    Call,
    Op,
    join,
    make_rank,
)
from tests.unit.analysis.replay.test_plan import make_replay

PASS, LAYER = (KERNEL, FILL, KERNEL, KERNEL, FILL, FILL), (ALL_REDUCE, FILL) * 3


@pytest.mark.parametrize(
    ("pause_ms", "place", "spared"), [(3, 4, True), (5, 4, False), (3, 0, False)]
)
def test_a_pause_that_is_short_beside_its_row_belongs_to_it(
    pause_ms: int, place: int, spared: bool
) -> None:
    """Twenty launches of 2 ms make a part of 40 to 45 ms. A pause before it is between steps."""
    calls, ops, now = list[Call](), list[Op](), 0
    for step in range(3):
        for number in range(20):
            silent = 1_000_000 * pause_ms if number == place else 0
            now += silent
            calls.append(Call(now, now + 2_000_000, step, silent=silent))
            ops.append(Op(now + 2_001_000, now + 2_003_000, len(ops), step))
            now += 2_000_000
    graph = join(make_rank(calls, ops))
    rows = find_launch_rows(graph, graph.live)
    paused = set(rows.list_short_pauses(graph, Weights.of(graph)).tolist())
    assert [20 * step + place in paused for step in range(3)] == [spared] * 3


@pytest.mark.parametrize(("passes", "is_loop"), [(6, True), (5, False)])
def test_passes_that_a_copy_ends_are_a_loop_if_a_step_has_six(passes: int, is_loop: bool) -> None:
    """Each pass: three kernels and fills in turns, and a copy, as an optimizer that clones."""
    calls, ops, now = list[Call](), list[Op](), 0
    for step in range(3):
        for kind in (COMPUTE, SET, COMPUTE, SET, COMPUTE, SET, COPY) * passes:
            calls.append(Call(now, now + 10_000, step))
            ops.append(Op(now + 11_000, now + 13_000, len(ops), step, kind))
            now += 10_000
    graph = join(make_rank(calls, ops))
    rows = find_launch_rows(graph, graph.ops.kind != COPY)
    assert rows.are_loops(graph) == is_loop


@pytest.mark.parametrize(("every", "left"), [(8, 0), (2, 7)])
def test_of_rows_with_a_pass_each_the_launches_of_the_network_stay(every: int, left: int) -> None:
    """Twenty-four passes of six kernels, each after a long one. Before each eighth or second pass
    the network launches six small kernels, and one more in the row of the pass itself.
    """
    calls, ops, now = list[Call](), list[Op](), 0
    for step in range(3):
        for number in range(24):
            of_network = () if number % every else (None, *LAYER, None, ALL_REDUCE)
            for name in (*of_network, *PASS, None):
                length = 30_000 if name is None else 2_000
                ops.append(Op(now + 11_000, now + 11_000 + length, len(ops), step, name=name))
                calls.append(Call(now, now + 40_000, step))
                now += 40_000
    graph = join(make_rank(calls, ops))
    rows = find_launch_rows(graph, graph.ops.end - graph.ops.start < 5_000)
    kept = rows.keep_main_loop(graph)
    assert len(rows.calls) == 3 * (6 * 24 + 7 * 24 // every)
    assert len(kept.calls) == 3 * (6 * 24 + left * 24 // every)
    assert kept.are_loops(graph)


@pytest.mark.parametrize(
    ("kernel_us", "first"), [(4, "launches of tiny kernels"), (10, "launches")]
)
def test_a_loop_whose_kernels_do_not_fuse_comes_after_the_launches(
    kernel_us: int, first: str
) -> None:
    """Each step: eight passes of a kernel of one block, and twelve larger ones, each launched for
    20 us. A batch gains 140 of 400 us, and a graph 234 or more. Kernels of 10 us are a part of a
    batch only if the passes do not need each other.
    """
    calls, ops, now = list[Call](), list[Op](), 0
    for step in range(3):
        for blocks, length in ((1, 1_000 * kernel_us),) * 8 + ((132, 6_000),) * 12:
            ops.append(Op(now + 21_000, now + 21_000 + length, len(ops), step, blocks=blocks))
            calls.append(Call(now, now + 20_000, step))
            now += 20_000
    plan = make_plan(make_replay(join(make_rank(calls, ops))))
    assert plan.gains["launches of tiny kernels"] == pytest.approx(0.14, abs=0.001)
    assert plan.gains["launches"] >= 0.234
    assert plan.items[0].change.text == first
