"""The blocks of recorded kernels, and the GPU that they run on."""

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COMMUNICATION
from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.load.operations import GRID
from gpu_profile.analysis.replay.rank.build_graph import build_rank_graph
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from gpu_profile.analysis.store.schema import KERNEL
from gpu_profile.analysis.tables.analysis import Scope
from tests.unit.analysis.replay.test_recordings import open_program


@pytest.mark.recorded
def test_kernels_have_their_blocks_and_copies_none() -> None:
    """FSDP2 on an H200."""
    with open_program("unprepared/fsdp2_compile") as (database,):
        (activity,) = activities_of(database, Scope())
        graph = build_rank_graph(activity, database, 0)
        table = database.load(KERNEL, "start", "streamId", *GRID, sort=False)
    assert isinstance(graph, RankGraph)
    x, y, z = (table[name] for name in GRID)
    keys = zip(table["start"].tolist(), table["streamId"].tolist(), strict=True)
    blocks = dict(zip(keys, (x * y * z).tolist(), strict=True))
    streams = [graph.streams[number] for number in graph.ops.stream]
    keys = zip(graph.ops.start.tolist(), streams, strict=True)
    assert graph.ops.blocks.tolist() == [blocks.get(key, 0) for key in keys]
    is_kernel = graph.ops.kind <= COMMUNICATION
    assert np.array_equal(graph.ops.blocks > 0, is_kernel)
    assert 0 < is_kernel.sum() < len(is_kernel)
    assert graph.multiprocessors == 132
