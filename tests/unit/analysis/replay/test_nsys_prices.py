"""What nsys adds to the launch of a graph whose nodes it traces."""

import re
from pathlib import Path

import numpy as np

from gpu_profile.analysis.replay.changes import match_names
from gpu_profile.analysis.replay.shadow.nsys_prices import (
    GAP_PRICE_NS,
    NODE_PRICE_NS,
    find_node_prices,
    shorten_gaps,
)
from gpu_profile.analysis.replay.weights import Weights
from gpu_profile.analysis.store.files.open_report import open_report
from tests.generator.sharded import LAYERS, decode_sharded
from tests.reading import replay_reports
from tests.unit.analysis.replay.small_runs import Call, Op, join, make_rank

NODES = 2 * LAYERS


def test_a_launch_costs_a_time_for_each_node(tmp_path: Path) -> None:
    (rank,) = decode_sharded(1, 12, lambda *_: 0.0)
    with open_report(str(rank.recording.save(tmp_path / "rank0.host0.sqlite"))) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str)
    graph, prices = replay.graph, find_node_prices(replay.graph)
    launches = match_names(graph, re.compile("cudaGraphLaunch"))[graph.calls.name]
    assert np.array_equal(prices, np.where(launches, NODES * NODE_PRICE_NS, 0))


def test_a_gap_between_kernels_is_shorter_by_its_price_and_by_half_at_most() -> None:
    """Gaps of 0.6 and 2 us, and one of 6 us that nsys does not explain."""
    starts = (10_000, 20_600, 32_600, 48_600)
    calls = [Call(1_000 * each, 1_000 * each + 500, 0) for each in range(4)]
    ops = [Op(start, start + 10_000, call, 0) for call, start in enumerate(starts)]
    graph = join(make_rank(calls, ops))
    weights = Weights.of(graph)
    shorter = weights.delay - shorten_gaps(graph, weights).delay
    assert shorter[graph.nodes.op_start[1:]].tolist() == [300, GAP_PRICE_NS, 0]
