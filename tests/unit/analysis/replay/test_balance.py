"""All ranks get equal work between the same two collectives."""

from gpu_profile.analysis.activity.activity import COMMUNICATION
from gpu_profile.analysis.replay.edits.gpu_work import balance_compute
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from gpu_profile.analysis.replay.weights import Weights
from tests.unit.analysis.replay.small_runs import Call, Op, join, make_rank

LENGTHS = (10_000, 1_000, 8_000, 1_000)
"""ns of a kernel, a collective, an evaluation on rank 0 alone, and a collective."""


def make_steps(rank: int) -> RankGraph:
    calls, ops = list[Call](), list[Op]()
    for step in range(3):
        for place, length in enumerate(LENGTHS):
            if place == 2 and rank:
                continue
            start = 30_000 * step + 2_000 * place
            begin = 1_000 + 30_000 * step + sum(LENGTHS[:place])
            kind = {"kind": COMMUNICATION} if place % 2 else {}
            ops.append(Op(begin, begin + length, len(calls), step, **kind))
            calls.append(Call(start, start + 500, step))
    return make_rank(calls, ops, rank=rank)


def test_what_one_rank_does_alone_is_shared_where_it_does_it() -> None:
    """The kernels before the first collective stay as they are."""
    graph = join(make_steps(0), make_steps(1))
    work = balance_compute()(graph, Weights.of(graph)).work
    computes = graph.ops.kind != COMMUNICATION
    assert work[computes & (graph.op_rank == 0)].tolist() == 3 * [10_000, 4_000]
    assert work[computes & (graph.op_rank == 1)].tolist() == 3 * [10_000]
