"""Plans of small graphs counted by hand, and of recordings whose causes were planted."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, COPY, SET
from gpu_profile.analysis.replay.as_others import list_comparable_ranks, speed_up_gpu, speed_up_host
from gpu_profile.analysis.replay.changes import Apply, Change
from gpu_profile.analysis.replay.edits.calls import (
    free_launches,
    remove_pauses,
)
from gpu_profile.analysis.replay.edits.gpu_work import (
    balance_compute,
    scale_communication,
    scale_kernels,
)
from gpu_profile.analysis.replay.edits.loops.tiny_kernels import join_tiny_kernels
from gpu_profile.analysis.replay.edits.waits import remove_waits
from gpu_profile.analysis.replay.plan.make_plan import make_plan
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.find_shadow import subtract_profiler
from gpu_profile.analysis.replay.step_times import SelfTest
from gpu_profile.analysis.replay.weights import Weights
from gpu_profile.analysis.replay.what_if import predict_changes
from tests.unit.analysis.replay.small_runs import SYNC, Call, Op, join, make_rank
from tests.unit.analysis.replay.test_recordings import prepare
from tests.unit.analysis.replay.test_simulate import (
    make_late_host,
    make_step_of_two,
    make_waiting_host,
)


def make_replay(graph: RunGraph) -> Replay:
    return Replay(graph, SelfTest(0.0))


def predict_us(graph: RunGraph, change: Apply) -> float:
    replay = make_replay(graph)
    return round(1e3 * replay.predict_step(change(graph, Weights.of(graph))), 3)


def test_each_change_takes_its_cause_away() -> None:
    """Pause 50 us, launch 10, kernel 20; with a wait: launch 10, kernel 20, late by 1 and 4."""
    late, waiting = join(make_late_host()), join(make_waiting_host())
    assert predict_us(late, remove_pauses()) == 20
    assert predict_us(late, free_launches()) == 50
    assert predict_us(late, scale_kernels("gemm", 0.1)) == 60
    assert predict_us(waiting, remove_waits()) == 20
    assert predict_us(waiting, scale_kernels("GEMM", 0.5)) == 25
    assert predict_us(waiting, scale_kernels("conv", 0.5)) == 35


def test_equal_weights_are_replayed_once() -> None:
    graph = join(make_late_host())
    replay, unchanged = make_replay(graph), Weights.of(graph)
    without = remove_pauses()(graph, unchanged)
    assert replay.simulate(without) is replay.simulate(remove_pauses()(graph, unchanged))
    assert replay.simulate(unchanged).tolist() == graph.time.tolist()
    assert replay.simulate(without).tolist() != graph.time.tolist()


def make_tiny_kernels(
    in_row: int, other: int = SET, blocks: int = 0, last_blocks: int = 0, threads: int = 0
) -> RankGraph:
    """Each step: 16 launches of 10 us, of kernels of 2 us and so many `blocks` of `threads` each;
    one of 6 us and `last_blocks` follows each `in_row`. Each second of those 16 is of the `other`
    kind.
    """
    calls, ops, now = list[Call](), list[Op](), 0
    for step in range(5):
        for place in range(16):
            for length in (2_000,) if (place + 1) % in_row else (2_000, 6_000):
                kind = other if place % 2 and length == 2_000 else COMPUTE
                size = blocks if length == 2_000 else last_blocks
                start, call = now + 11_000, len(ops)
                calls.append(Call(now, now + 10_000, step))
                end = start + length
                ops.append(Op(start, end, call, step, kind, blocks=size, threads=threads))
                now += 10_000
    return make_rank(calls, ops)


def test_tiny_kernels_are_fused_where_a_loop_launches_them_in_a_row() -> None:
    """In rows of eight 34.2 us are left of 180: 0.7 of 2 us are taken off all kernels but the first
    of a row. Single ones stay, so all 200 us do.
    """
    in_row, single = (join(make_tiny_kernels(number)) for number in (8, 4))
    assert predict_us(in_row, join_tiny_kernels().apply) == 34.2
    assert predict_us(single, join_tiny_kernels().apply) == 200


@pytest.mark.parametrize(("other", "left_us", "least_us"), [(COMPUTE, 40, 34.2), (COPY, 180, 180)])
def test_a_batch_of_passes_keeps_a_launch_of_each_kernel(
    other: int, left_us: float, least_us: float
) -> None:
    """Eight launches of one kernel are as many passes, and one launch of 10 us is left of them
    beside that of 6 us; of a kernel and a fill these are four, which may be a part of a pass. One
    kernel in place of all has no launch for each. Copies stay, and end a row.
    """
    graph, change = join(make_tiny_kernels(8, other)), join_tiny_kernels()
    assert change.bounds is not None
    assert predict_us(graph, change.apply) == left_us
    assert predict_us(graph, change.bounds[0]) == least_us


@pytest.mark.parametrize(
    ("blocks", "last_blocks", "left_us"),
    [(33, 132, 20.55), (132, 132, 34.2), (264, 0, 34.2), (33, 33, 20), (33, 111, 20.55)],
)
def test_narrow_kernels_of_a_loop_run_side_by_side_in_a_batch(
    blocks: int, last_blocks: int, left_us: float
) -> None:
    """A kernel of 33 blocks takes a quarter of 132 multiprocessors, so after the first of a row
    0.325 us of 1.3 are left. One of 6 us joins the row with 33 blocks: nine passes, of which two
    launches of 10 us stay. With 111 blocks it would take 5.05 us of the GPU, which is not tiny.
    """
    graph = join(make_tiny_kernels(8, SET, blocks, last_blocks))
    change = join_tiny_kernels()
    assert predict_us(graph, change.apply) == left_us
    assert change.bounds is not None
    assert change.describe is not None
    assert predict_us(graph, change.bounds[0]) == 34.2
    narrow = {(33, 132): 14, (33, 111): 14, (33, 33): 17}.get((blocks, last_blocks))
    line = change.describe(graph)
    assert line.startswith(f"{narrow} kernels a step") if narrow else not line


@pytest.mark.parametrize(
    ("name", "threads", "left_us"),
    [("scale", 256, 20.55), ("scale", 1024, 34.2), ("gemm", 256, 26.4)],
)
def test_blocks_of_few_threads_share_a_multiprocessor_in_a_batch(
    name: str, threads: int, left_us: float
) -> None:
    """132 blocks of 256 threads take a quarter of as many multiprocessors, each full with 1,024.
    Those that multiply matrices take the tensor cores of a whole one: half of a row, for the other
    half are fills.
    """
    rank = make_tiny_kernels(8, SET, 132, 444, threads)
    names = tuple(name if text == "gemm" else text for text in rank.names)
    graph = join(replace(rank, names=names))
    assert predict_us(graph, join_tiny_kernels().apply) == left_us


@pytest.mark.parametrize(
    ("pause_us", "place", "left_us"), [(300, 4, 34.2), (2_000, 4, 2_000), (300, 0, 320)]
)
def test_short_pauses_of_a_loop_go_with_its_launches(
    pause_us: int, place: int, left_us: float
) -> None:
    """A host that pauses for 2 ms does other work, and so does one between two steps. Two launches
    of 10 us are of no loop."""
    rank = make_tiny_kernels(8)
    more = 1_000 * pause_us * (1 + rank.calls.step.astype(np.int64))
    more[np.arange(len(more)) % 18 < place] -= 1_000 * pause_us
    silent = np.where(np.arange(len(more)) % 18 == place, 1_000 * pause_us, 0)
    calls = replace(
        rank.calls, start=rank.calls.start + more, end=rank.calls.end + more, silent=silent
    )
    shift = more[rank.ops.call]
    ops = replace(rank.ops, start=rank.ops.start + shift, end=rank.ops.end + shift)
    graph = join(replace(rank, calls=calls, ops=ops))
    assert predict_us(graph, join_tiny_kernels().apply) == pytest.approx(left_us, rel=0.03)


def test_changes_of_one_rank_count_for_all() -> None:
    """Rank 0 computes 30 us, rank 1 80, the all-reduce takes 5."""
    graph = join(make_step_of_two(30_000, 80_000, 0), make_step_of_two(80_000, 80_000, 1))
    assert predict_us(graph, speed_up_gpu(1)) == 35
    assert predict_us(graph, speed_up_gpu(0)) == 85
    assert predict_us(graph, balance_compute()) == 60
    assert predict_us(graph, scale_communication(0.0)) == 80
    assert predict_us(graph, speed_up_host(1)) == 85


def make_slow_host(rank: int, kernel_us: int) -> RankGraph:
    """Each step: a pause of 50 us, two launches of 5, a kernel, and an all-reduce, which takes 5 us
    after rank 2's kernel of 46.
    """
    calls, ops = list[Call](), list[Op]()
    for step in range(8):
        now = 60_000 * step + 50_000
        calls += [Call(now, now + 5_000, step, silent=50_000)]
        calls += [Call(now + 5_000, now + 10_000, step)]
        start, end = now + 6_000, now + 6_000 + 1_000 * kernel_us
        ops += [Op(start, end, 2 * step, step)]
        ops += [Op(end + 5_000, now + 62_000, 2 * step + 1, step, COMMUNICATION)]
    return make_rank(calls, ops, rank=rank)


def test_a_rank_that_computes_longer_comes_after_the_hosts_that_are_all_slow() -> None:
    """The hosts need 60 us a step; rank 2's compute, of 46, costs nothing until they do not."""
    graph = join(*(make_slow_host(rank, 46 if rank == 2 else 4) for rank in range(3)))
    assert predict_us(graph, speed_up_gpu(2)) == 60
    texts = [item.text for item in make_plan(make_replay(graph)).items]
    assert texts[0].startswith("host pauses")
    assert texts[1].startswith("rank 2's compute")


def test_a_plan_names_what_is_next_after_the_first_fix() -> None:
    """Without its pauses the host takes 40 us for launches; then the GPU's 20 us are the step."""
    calls, ops, now = list[Call](), list[Op](), 0
    for step in range(5):
        start = now + 50_000
        calls.append(Call(start, start + 40_000, step, silent=50_000))
        ops.append(Op(start + 41_000, start + 61_000, step, step))
        now = start + 40_000
    plan = make_plan(make_replay(join(make_rank(calls, ops))))
    items = [(item.change.text, item.before_ms, item.after_ms) for item in plan.items]
    assert items == [("host pauses", 0.09, 0.04), ("launches", 0.04, 0.02)]


def test_a_cause_comes_before_a_bound_that_gains_twice_as_much() -> None:
    """Without launches the step is 60 us (the pause), without the pause 70."""
    calls, ops, now = list[Call](), list[Op](), 0
    for step in range(5):
        start = now + 60_000
        calls.append(Call(start, start + 70_000, step, silent=60_000))
        ops.append(Op(start + 71_000, start + 76_000, step, step))
        now = start + 70_000
    plan = make_plan(make_replay(join(make_rank(calls, ops))))
    gains = {text: gain for text, gain in plan.gains.items() if gain}
    assert gains == pytest.approx({"host pauses": 0.06, "launches": 0.07}, abs=1e-6)
    assert plan.items[0].change.text == "host pauses"


@pytest.mark.parametrize(("pause_us", "first"), [(30, "host pauses"), (14, "waits for the GPU")])
def test_work_after_a_wait_comes_before_the_wait_where_it_gains_as_much(
    pause_us: int, first: str
) -> None:
    """Each step: a pause, a launch of 10 us, a kernel of 20 us and a wait until 4 us after it.
    Without the wait, either the pause and the launch or the kernel are left.
    """
    calls, ops, returns, now = list[Call](), list[Op](), list[tuple[int, int]](), 0
    for step in range(5):
        start = now + 1000 * pause_us
        calls.append(Call(start, start + 10_000, step, silent=1000 * pause_us))
        calls.append(Call(start + 10_000, start + 35_000, step, SYNC, waits=True))
        ops.append(Op(start + 11_000, start + 31_000, 2 * step, step))
        returns.append((step, 2 * step + 1))
        now = start + 35_000
    plan = make_plan(make_replay(join(make_rank(calls, ops, returns))))
    assert plan.items[0].change.text == first


@pytest.mark.parametrize(("kernel_us", "first"), [(6.5, "launches"), (1, "host pauses")])
def test_pauses_that_a_faster_host_hides_are_a_part_of_its_launches(
    kernel_us: float, first: str
) -> None:
    """A pause of 40 us, six launches of 10: without launches the host is ahead of the GPU's 42 us,
    and waits for the pause where the GPU needs 9.
    """
    calls, ops, now = list[Call](), list[Op](), 0
    for step in range(8):
        for place in range(6):
            start = now + (0 if place else 40_000)
            now = start + 10_000
            begin = now + 1_000
            calls.append(Call(start, now, step, silent=0 if place else 40_000))
            ops.append(Op(begin, begin + round(1_000 * kernel_us), len(ops), step))
    plan = make_plan(make_replay(join(make_rank(calls, ops))))
    assert plan.gains["host pauses"] == pytest.approx(0.04, abs=1e-6)
    assert plan.gains["launches"] == pytest.approx(0.06, abs=0.003)
    assert plan.items[0].change.text == first


def test_a_control_makes_the_plan_one_of_the_program_without_the_profiler() -> None:
    """Of 50 us of pause and 10 of launch, a control of 57 us leaves 7 us to the launch."""
    replay = make_replay(join(make_late_host()))
    plan = make_plan(replay, subtract_profiler(replay, 0.057))
    assert plan.host_factor == pytest.approx(0.7, abs=0.02)
    assert (plan.recorded_ms, plan.step_ms) == pytest.approx((0.060, 0.057), abs=0.0005)
    assert plan.items[0].before_ms == plan.step_ms
    assert "0.06 ms recorded, 0.06 without the profiler" in plan.to_lines()[0]


def test_a_what_if_with_a_control_is_of_the_program_without_the_profiler() -> None:
    """A pause of 50 us, a launch of 7; after the kernel of 20 us the launch is no limit."""
    replay = make_replay(join(make_late_host()))
    changes = [Change("host pauses", remove_pauses())]
    answer = predict_changes(replay, changes, subtract_profiler(replay, 0.057))
    assert not answer.is_recorded
    assert answer.step_ms == pytest.approx(0.057, abs=0.0005)
    assert answer.steps == (("host pauses", 0.02),)


def test_what_the_critical_path_does_not_hold_is_not_tried() -> None:
    graph = join(make_step_of_two(30_000, 80_000, 0), make_step_of_two(80_000, 80_000, 1))
    plan = make_plan(make_replay(graph))
    assert plan.items[0].change.text == "rank 1's compute"
    assert {plan.gains[text] for text in ("launches", "host pauses", "rank 0's compute")} == {0.0}


def make_launches(count: int, rank: int) -> RankGraph:
    calls = [Call(100 * row, 100 * row + 50, row // count) for row in range(5 * count)]
    ops = [Op(100 * row + 60, 100 * row + 90, row, row // count) for row in range(5 * count)]
    return make_rank(calls, ops, rank=rank)


@pytest.mark.parametrize(("more", "ranks"), [(4, [0, 1]), (8, [1])])
def test_a_rank_with_more_kernels_can_do_as_little_as_the_others(
    more: int, ranks: list[int]
) -> None:
    """A rank with fewer has less to do; "as the others" would be more."""
    graph = join(make_launches(4, 0), make_launches(more, 1))
    assert list_comparable_ranks(graph) == ranks


def test_a_loss_of_two_causes_is_told_once() -> None:
    """The pauses of rank 1 are its host's, too: either is enough."""
    plan = make_plan(make_replay(join(make_paused_rank(0), make_paused_rank(1))))
    item, communication = plan.items
    assert communication.change.text == "communication"
    texts = {item.change.text, *(change.text for change in item.alternatives)}
    assert texts == {"host pauses", "rank 1's host"}
    assert (item.before_ms, item.after_ms) == (0.07, 0.025)


def make_paused_rank(rank: int) -> RankGraph:
    """A step of 70 us: the host of rank 1 pauses for 60 and launches for 10, that of rank 0 only
    launches. A kernel takes 20 us, an all-reduce 5 from the arrival of rank 1.
    """
    calls, ops = list[Call](), list[Op]()
    for step in range(5):
        now = 70_000 * step
        start = now + 60_000 if rank else 10_000 * step
        calls.append(Call(start, start + 5_000, step, silent=60_000 * rank))
        calls.append(Call(start + 5_000, start + 10_000, step))
        begin = now + (66_000 if rank else 21_000)
        ops.append(Op(begin, begin + 20_000, 2 * step, step))
        ops.append(Op(begin + 20_000, now + 91_000, 2 * step + 1, step, COMMUNICATION))
    return make_rank(calls, ops, rank=rank)


@pytest.mark.recorded
@pytest.mark.parametrize(
    ("name", "text", "gain"),
    [
        ("unprepared/straggler_loader", "rank 0's host", 25.6),
        ("unprepared/straggler_compute", "rank 0's compute", 43.4),
        ("unprepared/collate", "host pauses", 6.5),
    ],
)
def test_planted_causes_come_first(name: str, text: str, gain: float) -> None:
    """The loader sleeps 32 ms for each batch, of which the GPU's 6 ms are hidden; the collate
    function takes 6 ms; the kernels of rank 0 take 43 ms more.
    """
    replay = prepare(name)
    assert isinstance(replay, Replay)
    item = make_plan(replay, most=1).items[0]
    assert item.change.text == text
    assert item.before_ms - item.after_ms == pytest.approx(gain, rel=0.05)
