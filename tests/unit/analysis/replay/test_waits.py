"""Waits for the GPU that a program does without, and what goes with them."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COMPUTE, COPY, SET
from gpu_profile.analysis.replay.edits.waits import describe_waits, remove_waits
from gpu_profile.analysis.replay.plan.make_plan import make_plan
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from gpu_profile.analysis.replay.step_times import test_replay as judge_replay
from tests.unit.analysis.replay.small_runs import (
    KERNEL,
    MALLOC,
    NAMES,
    SYNC,
    TO_DEVICE,
    Call,
    Op,
    join,
    make_rank,
)
from tests.unit.analysis.replay.test_plan import make_replay, predict_us

STEPS, LAYERS = 6, 8


def make_timed_layers(before_wait: int, name: int = SYNC, layers: int = LAYERS) -> RankGraph:
    """Each step: `layers` times 20 us of work and a launch of 10, and `before_wait` ns of work and
    a wait of 3 us, which finds the kernel of 6 us done; or another call of this name, which waits
    for nothing.
    """
    calls, ops, returns, now = list[Call](), list[Op](), list[tuple[int, int]](), 0
    for step in range(STEPS):
        for _ in range(layers):
            launch, wait = now + 20_000, now + 30_000 + before_wait
            if name == SYNC:
                returns.append((len(ops), len(calls) + 1))
            calls.append(Call(launch, launch + 10_000, step))
            ops.append(Op(launch + 11_000, launch + 17_000, len(calls) - 1, step))
            calls.append(Call(wait, wait + 3_000, step, name))
            now = wait + 3_000
    return make_rank(calls, ops, returns)


@pytest.mark.parametrize(("before_wait_us", "left_us"), [(15, 0), (20, 0), (70, 50)])
def test_a_wait_that_never_blocks_costs_its_call_and_what_issues_it(
    before_wait_us: int, left_us: int
) -> None:
    """Before a launch the host works for 20 us: more of it before a wait is not the wait's."""
    graph = join(make_timed_layers(1_000 * before_wait_us))
    assert predict_us(graph, lambda graph, weights: weights) == LAYERS * (33 + before_wait_us)
    assert predict_us(graph, remove_waits()) == LAYERS * (30 + left_us)


def make_reads(size: int, gap_ns: int = 1_000, pause_ns: int = 0) -> RankGraph:
    """Each step: a pause, a launch of 10 us and a kernel of 20, a copy of `size` bytes to the host,
    whose call of 6 us comes 5 us after, of 2 us on the GPU and `gap_ns` after the kernel, and a
    wait for it.
    """
    calls, ops, returns = list[Call](), list[Op](), list[tuple[int, int]]()
    for step in range(STEPS):
        now = (40_000 + pause_ns) * step
        calls.append(Call(now, now + 10_000, step, silent=pause_ns))
        calls.append(Call(now + 15_000, now + 21_000, step))
        calls.append(Call(now + 21_000, now + 40_000, step, SYNC, waits=True))
        ops.append(Op(now + 11_000, now + 31_000, 3 * step, step))
        begin = now + 31_000 + gap_ns
        ops.append(Op(begin, begin + 2_000, 3 * step + 1, step, COPY, bytes=size))
        returns.append((2 * step + 1, 3 * step + 2))
    return make_rank(calls, ops, returns)


@pytest.mark.parametrize(("size", "left_us"), [(4, 20), (1_000_000, 28)])
def test_a_value_that_nobody_reads_is_not_copied(size: int, left_us: int) -> None:
    """Kernels of 20 us are left, and of a large copy its 2 us and the 6 us before it."""
    graph = join(make_reads(size, gap_ns=6_000))
    assert predict_us(graph, remove_waits()) == pytest.approx(left_us, abs=0.5)


def make_read_loop(turns: int, kernel_us: int, reads: int = 1, blocks: int = 0) -> RankGraph:
    """Each step: in each turn a launch of 5 us, a kernel of so many blocks, and for each read a
    copy of 4 bytes and a wait for it.
    """
    calls, ops, returns, now = list[Call](), list[Op](), list[tuple[int, int]](), 0
    for step in range(STEPS):
        for _ in range(turns):
            done = now + 6_000 + 1_000 * kernel_us
            ops.append(Op(now + 6_000, done, len(calls), step, blocks=blocks))
            calls.append(Call(now, now + 5_000, step))
            now += 5_000
            for _ in range(reads):
                ops.append(Op(done + 1_000, done + 3_000, len(calls), step, COPY, bytes=4))
                calls.append(Call(now, now + 5_000, step))
                returns.append((len(ops) - 1, len(calls)))
                done = max(now, done) + 6_000
                calls.append(Call(now + 5_000, done, step, SYNC, waits=True))
                now = done
    return make_rank(calls, ops, returns)


@pytest.mark.parametrize(
    ("turns", "kernel_us", "left_us"), [(8, 4, 4 + 7 * 3.3), (6, 4, 6 * 5), (8, 12, 8 * 12)]
)
def test_launches_for_the_reads_of_a_loop_are_fused(
    turns: int, kernel_us: int, left_us: float
) -> None:
    """Without their begins and ends, 0.7 us each. Six turns are five between reads, too few, and
    kernels of 12 us are too long.
    """
    graph = join(make_read_loop(turns, kernel_us))
    assert predict_us(graph, remove_waits()) == pytest.approx(left_us, abs=0.5)


@pytest.mark.parametrize(("reads", "left_us"), [(1, 34.7), (2, 34.7), (3, 264)])
def test_narrow_kernels_of_the_turns_of_a_loop_run_side_by_side(reads: int, left_us: float) -> None:
    """One block takes 0.25 of 33 us of a GPU of 132 multiprocessors. A kernel has two results at
    most, so three reads are of something else.
    """
    graph = join(make_read_loop(8, 33, reads, blocks=1))
    assert predict_us(graph, remove_waits()) == pytest.approx(left_us, abs=0.1)


def make_item_loop(turns: int, kernels: int, blocks: int, size: int = 4) -> RankGraph:
    """Each step: turns of so many kernels of 4 us, each with its launch of 5 us, and a read of
    `size` bytes.
    """
    calls, ops, returns, now = list[Call](), list[Op](), list[tuple[int, int]](), 0
    for step in range(STEPS):
        for _ in range(turns):
            for _ in range(kernels):
                ops.append(Op(now + 6_000, now + 10_000, len(calls), step, blocks=blocks))
                calls.append(Call(now, now + 5_000, step))
                now += 5_000
            ops.append(Op(now + 6_000, now + 8_000, len(calls), step, COPY, bytes=size))
            calls.append(Call(now, now + 5_000, step))
            returns.append((len(ops) - 1, len(calls)))
            calls.append(Call(now + 5_000, now + 11_000, step, SYNC, waits=True))
            now += 11_000
    return make_rank(calls, ops, returns)


@pytest.mark.parametrize(
    ("kernels", "blocks", "left_us"), [(3, 132, 81.3), (6, 22, 47.1), (6, 132, 240), (7, 22, 280)]
)
def test_more_kernels_of_an_item_are_fused_if_six_items_fit_side_by_side(
    kernels: int, blocks: int, left_us: float
) -> None:
    """Of 22 blocks each, a sixth of the multiprocessors. A turn of a solver fills the GPU, or is
    longer: it needs the one before.
    """
    graph = join(make_item_loop(8, kernels, blocks))
    assert predict_us(graph, remove_waits()) == pytest.approx(left_us, abs=0.5)


@pytest.mark.parametrize(("kernels", "left_us"), [(7, 47.1), (8, 280)])
def test_a_kernel_that_makes_a_truth_value_is_no_part_of_a_turn(
    kernels: int, left_us: float
) -> None:
    """It goes with its read: six of seven are left, as of an item."""
    graph = join(make_item_loop(8, kernels, blocks=22, size=1))
    assert predict_us(graph, remove_waits()) == pytest.approx(left_us, abs=0.5)


def make_write_loop(turns: int, kernel_us: int, reads: bool = False, nodes: int = 1) -> RankGraph:
    """48 turns of 40 us, so many in a step: a copy of 64 bytes to the GPU of 5 us, a wait of 5 us
    for it, and a launch of 5 us, of one kernel or as many nodes of a graph. A copy of 4 bytes back,
    if any, is not waited for.
    """
    calls, ops, returns = list[Call](), list[Op](), list[tuple[int, int]]()
    for turn in range(48):
        now, step, done = 40_000 * turn, turn // turns, 16_000 + 1_000 * kernel_us
        returns.append((len(ops), len(calls) + 1))
        begin, end = now + 6_000, now + 7_000
        ops.append(Op(begin, end, len(calls), step, COPY, bytes=64, name=TO_DEVICE))
        length = 1_000 * kernel_us // nodes
        for place in range(now + 16_000, now + done, length):
            ops.append(Op(place, place + length, len(calls) + 2, step))
        calls.append(Call(now, now + 5_000, step))
        calls.append(Call(now + 5_000, now + 10_000, step, SYNC, waits=True))
        calls.append(Call(now + 10_000, now + 15_000, step))
        if reads:
            back = now + done, now + done + 1_000
            ops.append(Op(*back, len(calls), step, COPY, bytes=4))
            calls.append(Call(now + 15_000, now + 20_000, step))
    return make_rank(calls, ops, returns)


@pytest.mark.parametrize(
    ("loop", "left_us"),
    [
        (make_write_loop(8, 4), 3.6),
        (make_write_loop(1, 4), 3.6),
        (make_write_loop(8, 12), 35),
        (make_write_loop(8, 4, nodes=4), 35),
        (make_write_loop(8, 4, reads=True), 35),
    ],
)
def test_what_a_loop_takes_to_the_gpu_is_one_copy(loop: RankGraph, left_us: float) -> None:
    """Copies of 1 us and kernels, without their begins and ends of 0.7 us, also where each turn is
    a step. Kernels of 12 us are too long, graphs of four kernels are other work, and a turn with a
    copy to the host is another loop: there the wait goes.
    """
    graph = join(loop)
    turns = 48 // loop.count
    assert predict_us(graph, remove_waits()) == pytest.approx(turns * left_us, abs=0.5)
    assert bool(describe_waits(graph)) == (left_us < 35)


def make_uneven_reads(late_us: int) -> RankGraph:
    """Each step: 10 reads by a launch of 5 us, a copy of 2 us and a wait for it; 4 of the waits
    return `late_us` after the copy.
    """
    calls, ops, returns, now = list[Call](), list[Op](), list[tuple[int, int]](), 0
    for step in range(STEPS):
        for number in range(10):
            late = 1_000 * late_us * (number % 5 < 2)
            returns.append((len(ops), len(calls) + 1))
            calls.append(Call(now, now + 5_000, step))
            ops.append(Op(now + 6_000, now + 8_000, len(calls) - 1, step, COPY, bytes=4))
            calls.append(Call(now + 5_000, now + 8_000 + late, step, SYNC, waits=True))
            now += 8_000 + late
    return make_rank(calls, ops, returns)


@pytest.mark.parametrize(("late_us", "holds"), [(4, True), (200, False)])
def test_a_replay_holds_where_waits_return_a_little_later_in_turns(
    late_us: int, holds: bool
) -> None:
    assert judge_replay(join(make_uneven_reads(late_us))).holds == holds


def make_streams(blocks: int, kind: int = COMPUTE) -> RankGraph:
    """Each step: on two streams in turn an operation of 20 us and a wait for it, four times;
    launches take 5 us.
    """
    calls, ops, returns, now = list[Call](), list[Op](), list[tuple[int, int]](), 0
    for step in range(STEPS):
        for number in range(4):
            returns.append((len(ops), len(calls) + 1))
            run = now + 6_000, now + 26_000
            ops.append(Op(*run, len(calls), step, kind, number % 2, bytes=1_000_000, blocks=blocks))
            calls.append(Call(now, now + 5_000, step))
            calls.append(Call(now + 5_000, now + 27_000, step, SYNC, waits=True))
            now += 27_000
    return make_rank(calls, ops, returns)


@pytest.mark.parametrize(
    ("blocks", "kind", "left_us"),
    [(132, COMPUTE, 80), (67, COMPUTE, 80), (66, COMPUTE, 40), (0, COPY, 80)],
)
def test_operations_that_fill_the_gpu_together_take_turns_without_the_wait(
    blocks: int, kind: int, left_us: int
) -> None:
    """Kernels of half of its multiprocessors run side by side; copies of one direction do not."""
    graph = join(make_streams(blocks, kind))
    assert predict_us(graph, lambda graph, weights: weights) == 4 * 27
    assert predict_us(graph, remove_waits()) == left_us


def make_tests(size: int) -> RankGraph:
    """Each step: a kernel of 20 us, a second one of 5, a copy of `size` bytes, and a wait for it.
    Each call takes 5 us but for the wait.
    """
    calls, ops, returns = list[Call](), list[Op](), list[tuple[int, int]]()
    for step in range(STEPS):
        now, call = 40_000 * step, 4 * step
        calls += [Call(now + at, now + at + 5_000, step) for at in (0, 5_000, 10_000)]
        calls.append(Call(now + 15_000, now + 40_000, step, SYNC, waits=True))
        ops.append(Op(now + 6_000, now + 26_000, call, step))
        ops.append(Op(now + 27_000, now + 32_000, call + 1, step))
        ops.append(Op(now + 33_000, now + 35_000, call + 2, step, COPY, bytes=size))
        returns.append((3 * step + 2, call + 3))
    return make_rank(calls, ops, returns)


@pytest.mark.parametrize(("size", "left_us"), [(1, 20), (4, 26)])
def test_a_kernel_that_makes_a_truth_value_goes_with_its_read(size: int, left_us: int) -> None:
    """The kernel of 5 us goes only before a copy of one byte; 1 us stays before it else."""
    graph = join(make_tests(size))
    assert predict_us(graph, remove_waits()) == pytest.approx(left_us, abs=0.5)


@pytest.mark.parametrize(("reads", "left_us"), [(8, 34), (5, 20)])
def test_of_a_row_of_reads_one_stays(reads: int, left_us: int) -> None:
    """Each step: a launch of 10 us and a kernel of 20, and `reads` values that are read, each by a
    call of 5 us, a copy of 1 and a wait that ends 1 us after it. The first copy waits for the
    kernel: with one read a step takes 34 us.
    """
    calls, ops, returns, now = list[Call](), list[Op](), list[tuple[int, int]](), 0
    for step in range(STEPS):
        calls.append(Call(now, now + 10_000, step))
        ops.append(Op(now + 11_000, now + 31_000, len(calls) - 1, step))
        free, now = now + 32_000, now + 10_000
        for _ in range(reads):
            begin = max(free, now + 6_000)
            returns.append((len(ops), len(calls) + 1))
            ops.append(Op(begin, begin + 1_000, len(calls), step, COPY, bytes=4))
            calls.append(Call(now, now + 5_000, step))
            calls.append(Call(now + 5_000, begin + 2_000, step, SYNC, waits=True))
            now = begin + 2_000
    graph = join(make_rank(calls, ops, returns))
    assert predict_us(graph, remove_waits()) == pytest.approx(left_us, abs=0.5)
    words = describe_waits(graph)
    assert ("8 values a step are read one after the other" in words) == (reads == 8)


COMPARE, JOIN = (
    "compare_scalar_kernel<float>",
    "reduce_kernel<512, 1, ReduceOp<bool, and_kernel_cuda",
)


def make_checks(first: str, last: str) -> RankGraph:
    """Each step: a kernel of 20 us, two of 5 with these names, a fill between these, a copy of one
    byte, and a wait for it. Each call takes 5 us but for the wait.
    """
    calls, ops, returns, names = list[Call](), list[Op](), list[tuple[int, int]](), len(NAMES)
    for step in range(STEPS):
        now, call = 50_000 * step, 6 * step
        calls += [Call(now + at, now + at + 5_000, step) for at in range(0, 25_000, 5_000)]
        calls.append(Call(now + 25_000, now + 50_000, step, SYNC, waits=True))
        ops.append(Op(now + 6_000, now + 26_000, call, step))
        ops.append(Op(now + 27_000, now + 32_000, call + 1, step, name=names))
        ops.append(Op(now + 33_000, now + 34_000, call + 2, step, SET))
        ops.append(Op(now + 35_000, now + 40_000, call + 3, step, name=names + 1))
        ops.append(Op(now + 41_000, now + 43_000, call + 4, step, COPY, bytes=1))
        returns.append((5 * step + 4, call + 5))
    return replace(make_rank(calls, ops, returns), names=(*NAMES, first, last))


@pytest.mark.parametrize(
    ("first", "last", "left_us"),
    [(COMPARE, JOIN, 20), ("gemm", JOIN, 26), (COMPARE, "gemm", 28)],
)
def test_a_check_goes_whole(first: str, last: str, left_us: int) -> None:
    """What compares, and the fill, go with the kernel that joins many truth values."""
    graph = join(make_checks(first, last))
    assert predict_us(graph, remove_waits()) == pytest.approx(left_us, abs=0.5)


@pytest.mark.parametrize(
    ("name", "text"), [(SYNC, "waits for the GPU"), (MALLOC, "memory allocations")]
)
def test_calls_come_before_the_cuda_graph_that_they_forbid(name: int, text: str) -> None:
    """Launches take 240 us of 384, and waits the rest; allocations take 24."""
    plan = make_plan(make_replay(join(make_timed_layers(15_000, name))))
    assert [item.change.text for item in plan.items] == [text, "launches"]
    assert plan.gains["launches"] > plan.gains[text] > 0


def test_one_wait_a_step_leaves_room_for_a_cuda_graph() -> None:
    plan = make_plan(make_replay(join(make_timed_layers(5_000, layers=1))))
    assert plan.items[0].change.text == "launches"
    assert plan.gains["waits for the GPU"] > 0


def make_awaited_chain(gemm_us: int, kernel_us: int) -> RankGraph:
    """Each step: a product and four elementwise kernels, launched in 50 us, a wait for them, and
    100 us of the host's work.
    """
    calls, ops, returns, now = list[Call](), list[Op](), list[tuple[int, int]](), 0
    for step in range(STEPS):
        free = now + 11_000
        for name, time_us in ((KERNEL, gemm_us), *[(len(NAMES), kernel_us)] * 4):
            ops.append(
                Op(
                    free,
                    free + 1_000 * time_us,
                    len(calls),
                    step,
                    blocks=528,
                    threads=128,
                    name=name,
                )
            )
            calls.append(Call(now, now + 10_000, step))
            free, now = free + 1_000 * time_us, now + 10_000
        returns.append((len(ops) - 1, len(calls)))
        calls.append(Call(now, free + 1_000, step, SYNC, waits=True))
        now = free + 101_000
    names = (*NAMES, "cupy_multiply__float32_float_float32")
    return replace(make_rank(calls, ops, returns), names=names)


@pytest.mark.parametrize(
    ("gemm_us", "kernel_us", "first"),
    [(10, 25, "unfused elementwise kernels"), (150, 6, "waits for the GPU")],
)
def test_slow_kernels_come_before_the_wait_for_them_that_gains_as_much(
    gemm_us: int, kernel_us: int, first: str
) -> None:
    """A fused kernel leaves a quarter of the four. Without the wait the host's work hides them."""
    plan = make_plan(make_replay(join(make_awaited_chain(gemm_us, kernel_us))))
    assert plan.items[0].change.text == first
    assert plan.gains["waits for the GPU"] > 0.05


@pytest.mark.parametrize(
    ("size", "first"), [(500_000, "waits for the GPU"), (1_000_000, "host pauses")]
)
def test_work_on_data_that_the_host_waits_for_comes_before_the_wait(size: int, first: str) -> None:
    """Pinned copies. The wait gains 19 us, the pause 16: a little less."""
    reads = make_reads(size, pause_ns=16_000)
    pinned = replace(reads.ops, pageable=np.zeros_like(reads.ops.pageable))
    plan = make_plan(make_replay(join(replace(reads, ops=pinned))))
    assert plan.gains["waits for the GPU"] > plan.gains["host pauses"] > 0
    assert plan.items[0].change.text == first
