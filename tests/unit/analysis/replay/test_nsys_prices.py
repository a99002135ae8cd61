"""What nsys adds to the launch of a graph whose nodes it traces."""

import re
from pathlib import Path

import numpy as np

from gpu_profile.analysis.replay.changes import match_names
from gpu_profile.analysis.replay.shadow.nsys_prices import NODE_PRICE_NS, find_node_prices
from gpu_profile.analysis.store.files.open_report import open_report
from tests.generator.sharded import LAYERS, decode_sharded
from tests.reading import replay_reports

NODES = 2 * LAYERS


def test_a_launch_costs_a_time_for_each_node(tmp_path: Path) -> None:
    (rank,) = decode_sharded(1, 12, lambda *_: 0.0)
    with open_report(str(rank.recording.save(tmp_path / "rank0.host0.sqlite"))) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str)
    graph, prices = replay.graph, find_node_prices(replay.graph)
    launches = match_names(graph, re.compile("cudaGraphLaunch"))[graph.calls.name]
    assert np.array_equal(prices, np.where(launches, NODES * NODE_PRICE_NS, 0))
