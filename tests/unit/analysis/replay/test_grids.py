"""The blocks of recorded kernels, the GPU that they run on, and what more blocks would gain."""

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, COPY
from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.load.operations import BLOCK, GRID
from gpu_profile.analysis.replay.edits.kernels.small_grids import spread_small_grids
from gpu_profile.analysis.replay.rank.build_graph import build_rank_graph
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from gpu_profile.analysis.store.schema import KERNEL
from gpu_profile.analysis.tables.analysis import Scope
from tests.unit.analysis.replay.small_runs import Call, Op, join, make_rank
from tests.unit.analysis.replay.test_plan import predict_us
from tests.unit.analysis.replay.test_recordings import open_program


@pytest.mark.recorded
def test_kernels_have_their_blocks_and_copies_none() -> None:
    """FSDP2 on an H200."""
    with open_program("unprepared/fsdp2_compile") as (database,):
        (activity,) = activities_of(database, Scope())
        graph = build_rank_graph(activity, database, 0)
        table = database.load(KERNEL, "start", "streamId", *GRID, *BLOCK, sort=False)
    assert isinstance(graph, RankGraph)
    x, y, z = (table[name].astype(np.int64) for name in GRID)
    keys = tuple(zip(table["start"].tolist(), table["streamId"].tolist(), strict=True))
    blocks = dict(zip(keys, (x * y * z).tolist(), strict=True))
    streams = [graph.streams[number] for number in graph.ops.stream]
    keys_of_ops = tuple(zip(graph.ops.start.tolist(), streams, strict=True))
    assert graph.ops.blocks.tolist() == [blocks.get(key, 0) for key in keys_of_ops]
    x, y, z = (table[name].astype(np.int64) for name in BLOCK)
    threads = dict(zip(keys, (x * y * z).tolist(), strict=True))
    assert graph.ops.threads.tolist() == [threads.get(key, 0) for key in keys_of_ops]
    is_kernel = graph.ops.kind <= COMMUNICATION
    assert np.array_equal(graph.ops.blocks > 0, is_kernel)
    assert 0 < is_kernel.sum() < len(is_kernel)
    assert graph.multiprocessors == 132


def make_grids(blocks: int, length: int, beside: Op | None = None, threads: int = 0) -> RankGraph:
    """Each step: a kernel of so many blocks and ns, and `beside` from its begin on, on a second
    stream.
    """
    calls, ops = list[Call](), list[Op]()
    for step in range(5):
        begin, now = 30_000 * step, 200_000 + step * length
        calls.append(Call(begin, begin + 1_000, step))
        ops.append(Op(now, now + length, len(calls) - 1, step, blocks=blocks, threads=threads))
        if beside:
            calls.append(Call(begin + 1_000, begin + 2_000, step))
            place = len(calls) - 1, step, beside.kind, 1, 0, beside.blocks
            ops.append(Op(now + beside.start, now + beside.end, *place))
    return make_rank(calls, ops)


@pytest.mark.parametrize(
    ("blocks", "left_us", "least_us", "most_us"),
    [(11, 40, 120, 5.714), (33, 120, 240, 17.143), (34, 240, 240, 240), (0, 240, 240, 240)],
)
def test_a_long_kernel_of_few_blocks_is_spread_over_the_gpu(
    blocks: int, left_us: float, least_us: float, most_us: float
) -> None:
    """11 of 132 multiprocessors are a twelfth: half of that ratio is six times as fast. 34 are more
    than a quarter, and 0 are not known.
    """
    graph, change = join(make_grids(blocks, 240_000)), spread_small_grids()
    assert change.bounds is not None
    applied = (change.apply, *change.bounds)
    assert [predict_us(graph, each) for each in applied] == [left_us, least_us, most_us]


@pytest.mark.parametrize(
    ("threads", "left_us"), [(64, 40), (128, 40), (256, 60), (512, 120), (1024, 240)]
)
def test_threads_of_a_block_hide_each_others_waits(threads: int, left_us: float) -> None:
    """33 of 132 multiprocessors: four times as many leave a fourth of 256 threads a block."""
    graph = join(make_grids(33, 240_000, threads=threads))
    assert predict_us(graph, spread_small_grids().apply) == left_us


@pytest.mark.parametrize(("length", "left_us", "most_us"), [(19_000, 19, 19), (25_000, 20, 5)])
def test_a_short_kernel_stays_and_none_becomes_shorter(
    length: int, left_us: float, most_us: float
) -> None:
    graph, change = join(make_grids(1, length)), spread_small_grids()
    assert change.bounds is not None
    applied = (change.apply, change.bounds[1])
    assert [predict_us(graph, each) for each in applied] == [left_us, most_us]


@pytest.mark.parametrize(
    ("kind", "blocks", "end", "left_us"),
    [
        (COMPUTE, 132, 120_000, 120),
        (COMPUTE, 0, 120_000, 120),
        (COMMUNICATION, 110, 120_000, 120),
        (COPY, 0, 20_000, 20),
        (COMPUTE, 132, 60_000, 60),
        (COMPUTE, 99, 40_000, 40),
    ],
)
def test_kernels_of_other_streams_leave_less_room(
    kind: int, blocks: int, end: int, left_us: float
) -> None:
    """Of 11 twelfths of the GPU that stay idle beside 11 blocks, others leave none or a part, and
    take their own time. A copy leaves all.
    """
    graph = join(make_grids(11, 120_000, Op(0, end, 0, 0, kind, blocks=blocks)))
    assert predict_us(graph, spread_small_grids().apply) == pytest.approx(left_us, abs=3)
