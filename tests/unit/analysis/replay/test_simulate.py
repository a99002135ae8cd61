"""Replays of small graphs, whose times are counted by hand."""

from dataclasses import replace

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION
from gpu_profile.analysis.replay.changes import free_calls
from gpu_profile.analysis.replay.critical_path import find_critical_path, sum_path
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph, cut_steps, make_pairs
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.simulate import simulate
from gpu_profile.analysis.replay.step_times import measure_steps
from gpu_profile.analysis.replay.weights import Weights
from tests.unit.analysis.replay.small_runs import SYNC, Call, Op, join, make_rank

STEPS = 5


def make_late_host(pause: int = 50_000) -> RankGraph:
    """Each step: a pause of the host, a launch of 10 us, and a kernel of 20 us 1 us later."""
    calls, ops, now = list[Call](), list[Op](), 0
    for step in range(STEPS):
        start = now + pause
        calls.append(Call(start, start + 10_000, step, silent=pause))
        ops.append(Op(start + 11_000, start + 31_000, step, step))
        now = start + 10_000
    return make_rank(calls, ops)


def make_waiting_host() -> RankGraph:
    """Each step: a launch of 10 us, a kernel of 20 us from 1 us later, and a synchronization that
    returns 4 us after its end.
    """
    calls, ops, returns = list[Call](), list[Op](), list[tuple[int, int]]()
    for step in range(STEPS):
        now = 35_000 * step
        calls.append(Call(now, now + 10_000, step))
        calls.append(Call(now + 10_000, now + 35_000, step, SYNC, waits=True))
        ops.append(Op(now + 11_000, now + 31_000, 2 * step, step))
        returns.append((step, 2 * step + 1))
    return make_rank(calls, ops, returns)


def make_step_of_two(compute: int, arrival: int, rank: int) -> RankGraph:
    """Each step: a kernel, and on the same stream an all-reduce that ends 5 us after `arrival`.

    The host launches all steps at once.
    """
    calls, ops, now = list[Call](), list[Op](), 100_000
    for step in range(STEPS):
        for place in range(2):
            begin = 2_000 * (2 * step + place)
            calls.append(Call(begin, begin + 1_000, step))
        ops.append(Op(now, now + compute, 2 * step, step))
        start, end = now + compute, now + arrival + 5_000
        ops.append(Op(start, end, 2 * step + 1, step, COMMUNICATION))
        now = end
    return make_rank(calls, ops, rank=rank)


def step_ns(graph: RunGraph, weights: Weights) -> list[float]:
    return list(measure_steps(graph, simulate(graph, weights)))


def test_an_unchanged_replay_gives_the_recorded_times() -> None:
    for graph in (
        join(make_late_host()),
        join(make_step_of_two(30_000, 80_000, 0), make_step_of_two(80_000, 80_000, 1)),
    ):
        assert np.array_equal(simulate(graph, Weights.of(graph)), graph.time)


def test_without_its_pauses_the_gpu_sets_the_step() -> None:
    """The first call is a root; then launches come each 10 us and kernels of 20 us queue."""
    graph = join(make_late_host())
    assert step_ns(graph, Weights.of(graph)) == [60_000]
    weights = Weights.of(graph)
    nodes = graph.nodes.call_start[1:]
    faster = weights.with_delay(nodes, weights.delay[nodes] - graph.calls.silent[1:])
    assert step_ns(graph, faster) == [20_000]
    # with kernels of 4 us it is the launches
    assert step_ns(graph, faster.with_work(np.arange(STEPS), 4_000)) == [10_000]


def test_a_call_that_waits_holds_up_the_host() -> None:
    graph = join(make_waiting_host())
    weights = Weights.of(graph)
    assert step_ns(graph, weights) == [35_000]
    faster = weights.with_work(np.arange(STEPS), 5_000)
    assert step_ns(graph, faster) == [20_000]
    # without the wait the call takes its own 3 us: 13 us for the host, 20 us for the GPU
    waits = graph.nodes.call_end[graph.calls.waits]
    edges = np.flatnonzero(np.isin(graph.edges.target, waits) & (graph.edges.kind == Edge.RETURN))
    free = weights.without_edges(edges).with_delay(waits, 0)
    assert step_ns(graph, free) == [20_000]
    assert step_ns(graph, free.with_work(np.arange(STEPS), 5_000)) == [13_000]


def test_a_late_rank_holds_up_the_others() -> None:
    graph = join(make_step_of_two(30_000, 80_000, 0), make_step_of_two(80_000, 80_000, 1))
    weights = Weights.of(graph)
    assert step_ns(graph, weights) == [85_000, 85_000]
    late = np.flatnonzero((graph.op_rank == 1) & (graph.ops.kind != COMMUNICATION))
    assert step_ns(graph, weights.with_work(late, 30_000)) == [35_000, 35_000]
    assert step_ns(graph, weights.with_work(late, 10_000)) == [35_000, 35_000]
    early = np.flatnonzero((graph.op_rank == 0) & (graph.ops.kind != COMMUNICATION))
    assert step_ns(graph, weights.with_work(early, 10_000)) == [85_000, 85_000]


def test_compute_is_slower_beside_communication() -> None:
    """Two ranks; on rank 0 kernels of 40 us run beside an all-reduce that waits for rank 1, and
    take 60 us there. Every other step rank 1 comes in time, and they take 40 us.
    """
    graph = join(*(_make_beside(rank) for rank in (0, 1)))
    beside = graph.stretch[(graph.op_rank == 0) & (graph.ops.kind != COMMUNICATION)]
    assert beside.tolist() == [1.5] * 8
    assert np.array_equal(simulate(graph, Weights.of(graph)), graph.time)
    late = np.flatnonzero((graph.op_rank == 1) & (graph.ops.kind != COMMUNICATION))
    time = simulate(graph, Weights.of(graph).with_work(late, 1_000))
    rows = np.flatnonzero((graph.op_rank == 0) & (graph.ops.kind != COMMUNICATION))
    took = time[graph.nodes.op_end[rows]] - time[graph.nodes.op_start[rows]]
    # rank 1 arrives after 1 us and the transfer takes 3: in 4 us the kernel does 2.667 us of its
    # work, and the other 37.333 us alone
    assert int(took[0]) == 41_333


def _make_beside(rank: int) -> RankGraph:
    calls, ops, events = list[Call](), list[Op](), list[tuple[int, int]]()
    for step in range(8):
        now, slow = 100_000 + 70_000 * step, step % 2 == 0
        for place in range(2):
            begin = 2_000 * (2 * step + place)
            calls.append(Call(begin, begin + 1_000, step))
        arrival = now + (62_000 if slow else 0)
        if rank:
            ops.append(Op(now, max(arrival, now + 1_000), 2 * step, step))
            ops.append(Op(arrival if slow else now + 1_000, now + 65_000, 2 * step + 1, step,
                          COMMUNICATION))  # fmt: skip
        else:
            transfer = (now, now + 65_000) if slow else (now + 62_000, now + 65_000)
            ops.append(Op(*transfer, 2 * step + 1, step, COMMUNICATION, 1))
            ops.append(Op(now, now + (60_000 if slow else 40_000), 2 * step, step))
    return make_rank(calls, ops, events=events, rank=rank)


def test_the_path_has_what_the_step_consists_of() -> None:
    graph = join(make_late_host())
    parts = sum_path(graph, find_critical_path(graph, graph.time))
    # three steps of 60 us, up to the end of the last kernel: its 21 us stand for a pause's
    ms = {(part.lane, part.part): round(3 * part.ms, 6) for part in parts}
    assert ms == {
        ("thread 7", "host pause"): 0.129,
        ("thread 7", "CUDA call"): 0.03,
        ("stream 0", "kernel"): 0.02,
        ("stream 0", "launch latency"): 0.001,
    }


def test_fewer_steps_have_the_same_times() -> None:
    rank = make_late_host()
    graph = join(cut_steps(rank, 1, 3))
    assert (graph.steps, len(graph.ops.start)) == (3, 3)
    assert step_ns(graph, Weights.of(graph)) == [60_000]


def test_launches_that_are_gone_leave_room_in_the_queue() -> None:
    """Each launch waits for the kernel of the third one before. Without two launches, those up to
    three after them wait for earlier kernels.
    """
    calls, ops = list[Call](), list[Op]()
    for number in range(3 * STEPS):
        calls.append(Call(10_000 * number, 10_000 * number + 6_000, number // 3))
        ops.append(Op(10_000 * number + 8_000, 10_000 * number + 16_000, number, number // 3))
    queue = [(number, number + 3) for number in range(3 * STEPS - 3)]
    rank = make_rank(calls, ops)
    links = replace(rank.links, queue=make_pairs(*zip(*queue, strict=True)))
    graph = join(replace(rank, links=links))
    is_queue = graph.edges.kind == Edge.QUEUE
    assert np.count_nonzero(is_queue) == len(queue)
    kept = free_calls(graph, Weights.of(graph), np.array([], np.int64))
    assert not kept.is_gone.any()
    freed = free_calls(graph, Weights.of(graph), np.array([9, 10]))
    targets = graph.edges.target[is_queue & freed.is_gone]
    assert np.array_equal(np.sort(targets), np.sort(graph.nodes.call_end[[9, 10, 11, 12]]))
