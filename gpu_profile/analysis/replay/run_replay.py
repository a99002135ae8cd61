"""Prepare the replay of a run: join the ranks' graphs, and test the unchanged replay."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION
from gpu_profile.analysis.activity.steps.common_steps import common_steps, warm_up
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.rank.rank_graph import NoGraph, RankGraph, cut_steps
from gpu_profile.analysis.replay.rank.typical_steps import choose_steps, typical_step
from gpu_profile.analysis.replay.rank.window import LEAST_STEPS, MOST_RANKS
from gpu_profile.analysis.replay.run.choose_ranks import LEAST_RANKS, choose_ranks
from gpu_profile.analysis.replay.run.join import join_graphs
from gpu_profile.analysis.replay.run.matched_ranks import MatchedRank
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.simulate import simulate
from gpu_profile.analysis.replay.step_times import SelfTest, measure_steps, test_replay
from gpu_profile.analysis.replay.weights import Weights

MOST_OPS, MOST_IN_LEAST_STEPS = 10_000, 120_000
"""Operations of all replayed ranks: more steps than LEAST_STEPS are replayed up to the first
number, no steps beyond the second one. An operation takes some 10 us."""
MOST_OPS_UNLIKE = 20_000
"""Where no steps of MOST_OPS operations are like the typical step, more are replayed."""
ENOUGH_IN_LEAST_STEPS = 40_000
"""Where LEAST_STEPS steps of all ranks are too many, ranks are left out down to this number."""
MOST_UNMATCHED = 0.1
"""The part of the collectives. Without its partners the wait of one is taken for its transfer."""


@dataclass(frozen=True, eq=False)
class Replay:
    """A graph whose unchanged replay holds; `test` says how well. `processes`: how many may replay
    changes side by side.
    """

    graph: RunGraph
    test: SelfTest
    processes: int = 1
    _times: dict[bytes, IntArray] = field(default_factory=dict)
    """By Weights.digest: a plan, its shadow and the findings' costs ask for some of them twice."""

    @cached_property
    def step_ms(self) -> float:
        """The recorded step of the window's slowest rank."""
        return float(measure_steps(self.graph, self.graph.time).max()) / 1e6

    def simulate(self, weights: Weights) -> IntArray:
        """The time of each node with these weights; equal ones are replayed once."""
        digest = weights.digest
        if digest not in self._times:
            self._times[digest] = simulate(self.graph, weights)
        return self._times[digest]

    def predict_step(self, weights: Weights) -> float:
        """The step (ms) of the slowest rank with these weights."""
        return float(measure_steps(self.graph, self.simulate(weights)).max()) / 1e6


def prepare_replay(
    graphs: Sequence[RankGraph | NoGraph], ranks: Sequence[MatchedRank], clock_error_ns: int = 0
) -> Replay | str:
    """The replay of the ranks with steps; or on one line why nothing can be predicted.

    `graphs` are of the same ranks, in any order.
    """
    graph_of = {(rank_graph.rank, rank_graph.device): rank_graph for rank_graph in graphs}
    splits = [rank for rank in ranks if len(rank.states.steps)]
    if not splits:
        return "no steps were found"
    ordered = [graph_of[split.states.rank, split.states.device] for split in splits]
    for rank_graph in ordered:
        if isinstance(rank_graph, NoGraph):
            return f"rank {rank_graph.rank}: {rank_graph.why}"
    present = [rank_graph for rank_graph in ordered if isinstance(rank_graph, RankGraph)]
    window = _find_common_steps(present, splits)
    if isinstance(window, str):
        return window
    rows = choose_ranks(splits, _count_ranks(present, window), clock_error_ns)
    cut = _cut_to_common([present[row] for row in rows], window.keep_ranks(rows))
    if isinstance(cut, str):
        return cut
    chosen = [splits[row] for row in rows]
    parts = [split.states.collectives for split in chosen], [split.arrivals for split in chosen]
    graph = join_graphs(cut, *parts, clock_error_ns)
    return _test_graph(graph)


@dataclass(frozen=True)
class _CommonSteps:
    """The steps that all windows have: the first one by rank, among the rank's steps, and their
    lengths (ns). `typical` is the mean step of all steady ones.
    """

    first: tuple[int, ...]
    lengths: IntArray
    typical: float

    @property
    def count(self) -> int:
        return len(self.lengths)

    def keep_ranks(self, rows: Sequence[int]) -> "_CommonSteps":
        return replace(self, first=tuple(self.first[row] for row in rows))


def _find_common_steps(
    graphs: Sequence[RankGraph], splits: Sequence[MatchedRank]
) -> _CommonSteps | str:
    """The steady steps that all windows have."""
    steps = [split.states.steps for split in splits]
    common, drop = common_steps(steps), warm_up(steps)
    pairs = list(zip(graphs, common, strict=True))
    low = max(drop, *(graph.first - first for graph, (first, _) in pairs))
    high = min(min(graph.first + graph.count, end) - first for graph, (first, end) in pairs)
    if high - low < LEAST_STEPS:
        return f"the ranks have {max(0, high - low)} steady steps in common"
    begin, end = common[0]
    lengths = (steps[0].end - steps[0].start)[begin + low : begin + high]
    steady = (steps[0].end - steps[0].start)[begin + drop : end]
    return _CommonSteps(tuple(first + low for first, _ in common), lengths, typical_step(steady))


def _count_ranks(graphs: Sequence[RankGraph], window: _CommonSteps) -> int:
    """How many ranks are replayed: all of a small run, else fewer the larger their steps are."""
    pairs = zip(graphs, window.first, strict=True)
    size = sum(int(_count_ops(graph, first, LEAST_STEPS).sum()) for graph, first in pairs)
    if len(graphs) <= MOST_RANKS and size <= MOST_IN_LEAST_STEPS:
        return len(graphs)
    fitting = len(graphs) * ENOUGH_IN_LEAST_STEPS // max(size, 1)
    return max(LEAST_RANKS, min(MOST_RANKS, fitting))


def _cut_to_common(graphs: Sequence[RankGraph], window: _CommonSteps) -> list[RankGraph] | str:
    """The graphs with the same steps, as many of the window's as are replayed."""
    pairs = list(zip(graphs, window.first, strict=True))
    sizes = [_count_ops(graph, first, window.count) for graph, first in pairs]
    totals = np.cumsum(np.sum(sizes, axis=0))
    if totals[LEAST_STEPS - 1] > MOST_IN_LEAST_STEPS:
        return f"{LEAST_STEPS} steps of all ranks have {totals[LEAST_STEPS - 1]:,} GPU operations"
    limits = (int(np.searchsorted(totals, ops, "right")) for ops in (MOST_OPS, MOST_OPS_UNLIKE))
    least, most = (max(LEAST_STEPS, count) for count in limits)
    begin, count = choose_steps(window.lengths, window.typical, least, most)
    return [cut_steps(graph, first + begin, count) for graph, first in pairs]


def _count_ops(graph: RankGraph, first: int, count: int) -> IntArray:
    step = graph.ops.step - (first - graph.first)
    inside = step[(step >= 0) & (step < count)]
    return np.asarray(np.bincount(inside, minlength=count), np.int64)


def _test_graph(graph: RunGraph) -> Replay | str:
    # what begins before the window or ends after it has a partner outside
    inner = (graph.ops.step > 0) & (graph.ops.step < graph.steps - 1)
    communication = inner & (graph.ops.kind == COMMUNICATION)
    unmatched = np.count_nonzero(communication & ~graph.meets)
    count = np.count_nonzero(communication)
    if len(graph.ranks) > 1 and unmatched > MOST_UNMATCHED * count:
        return f"{unmatched} of {count} collectives have no partner on another rank"
    test = test_replay(graph)
    if not test.holds:
        return (
            f"the unchanged replay is {100 * test.error:+.1f} % off the recorded step: something "
            "that the recording does not show takes time"
        )
    return Replay(graph, test)
