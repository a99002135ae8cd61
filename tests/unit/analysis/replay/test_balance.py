"""All ranks get equal work between the same two collectives."""

from dataclasses import fields, replace

from gpu_profile.analysis.activity.activity import COMMUNICATION
from gpu_profile.analysis.replay.as_others import has_messages, has_pairs
from gpu_profile.analysis.replay.edits.gpu_work import balance_compute
from gpu_profile.analysis.replay.rank.rank_graph import GpuOps, RankGraph
from gpu_profile.analysis.replay.weights import Weights
from tests.unit.analysis.replay.small_runs import ALL_REDUCE, NAMES, Call, Op, join, make_rank

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


def send_messages(rank: RankGraph) -> RankGraph:
    """The rank with messages in place of its collectives."""
    names = list(NAMES)
    names[ALL_REDUCE] = "ncclDevKernel_SendRecv"
    return replace(rank, names=tuple(names))


def keep_compute(rank: RankGraph) -> GpuOps:
    """The rank's operations without communication."""
    rows = rank.ops.kind != COMMUNICATION
    return GpuOps(*(getattr(rank.ops, column.name)[rows] for column in fields(GpuOps)))


def list_work(*ranks: RankGraph) -> list[list[int]]:
    """What each rank's kernels take where all ranks compute as long."""
    graph = join(*ranks)
    work = balance_compute()(graph, Weights.of(graph)).work
    computes = graph.ops.kind != COMMUNICATION
    return [work[computes & (graph.op_rank == rank)].tolist() for rank in range(len(ranks))]


def test_what_one_rank_does_alone_is_shared_where_it_does_it() -> None:
    """The kernels before the first collective stay as they are."""
    assert list_work(make_steps(0), make_steps(1)) == [3 * [10_000, 4_000], 3 * [10_000]]


def test_ranks_meet_in_all_to_alls_as_in_other_collectives() -> None:
    """NCCL makes these of messages: rank 0's experts have more tokens, its attention has not."""
    ranks = [send_messages(make_steps(rank)) for rank in range(2)]
    graph = join(*ranks)
    assert has_messages(graph)
    assert not has_pairs(graph)
    assert list_work(*ranks) == [3 * [10_000, 4_000], 3 * [10_000]]


def test_messages_in_which_not_all_ranks_meet_are_no_limits_of_parts() -> None:
    """Rank 1 takes no part in them here: all that it computes is shared."""
    alone = make_steps(1)
    lone = replace(alone, ops=keep_compute(alone))
    ranks = send_messages(make_steps(0)), send_messages(lone)
    assert has_pairs(join(*ranks))
    assert list_work(*ranks)[1] == 3 * [14_000]
