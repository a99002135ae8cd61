"""Kernels of one stream whose last blocks run beside the first of the next one."""

import pytest

from gpu_profile.analysis.replay.edits.gpu_work import scale_kernels
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from tests.unit.analysis.replay.small_runs import Call, Op, join, make_rank
from tests.unit.analysis.replay.test_plan import predict_us


def make_pairs(tail_ns: int, last_ns: int = 100_000) -> RankGraph:
    """Each step: a matrix product of 100 us, and one that begins `tail_ns` before its end. The host
    launches 8 us of work a step, ahead of the GPU.
    """
    calls, ops, start = list[Call](), list[Op](), 10_000
    for step in range(5):
        begin = 8_000 * step
        calls += [Call(begin, begin + 3_000, step), Call(begin + 4_000, begin + 7_000, step)]
        second = start + 100_000 - tail_ns
        ops.append(Op(start, start + 100_000, 2 * step, step))
        ops.append(Op(second, second + last_ns, 2 * step + 1, step))
        start = max(second + last_ns, start + 100_000)
    return make_rank(calls, ops)


@pytest.mark.parametrize("tail_ns", [0, 32, 2_000, 13_000])
def test_a_kernel_begins_earlier_when_the_one_before_it_is_shorter(tail_ns: int) -> None:
    """Both are done twice as fast: half of their time is left, counted once where both run."""
    graph = join(make_pairs(tail_ns))
    left = (200_000 - tail_ns) / 2e3
    assert predict_us(graph, scale_kernels("gemm", 0.5)) == pytest.approx(left, abs=2)


@pytest.mark.parametrize(("tail_ns", "last_ns"), [(80_000, 100_000), (40_000, 20_000)])
def test_kernels_that_run_side_by_side_stay_so(tail_ns: int, last_ns: int) -> None:
    """The second begins in the first half of the other, or ends before it."""
    graph = join(make_pairs(tail_ns, last_ns))
    ends = graph.ops.end[::2] - graph.ops.start[::2]
    assert (ends == 100_000).all()
