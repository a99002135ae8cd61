"""Finding rank_skew: ranks of an engine wait for each other at all-reduces inside CUDA graphs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, NO_CALL, Activity
from gpu_profile.analysis.activity.steps.step_period import GRAPH_CALL
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.findings.evidence.arrivals import measure_lost_time
from gpu_profile.analysis.findings.evidence.graph_arrivals import (
    NO_LAUNCH,
    GraphArrivals,
    GraphView,
    list_graph_arrivals,
)
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.replay.as_others import speed_up_gpu, speed_up_host
from gpu_profile.analysis.replay.changes import Change, combine
from gpu_profile.analysis.store.database import Database

MOSTLY = 0.7
"""The part of the waiting for which the same rank is the cause, from which on it is named: with
ranks that are late by turns it is half of two, a quarter of four."""
ADVICE = {
    "host": "Find what this rank's host does before it launches its graph (another process on its "
    "CPU, a wrongly bound one, logging, sampling on one rank only); --preset=full names the "
    "function.",
    "compute": "Compare this rank's GPU with the others' (nvidia-smi -q -d "
    "CLOCK,POWER,PERFORMANCE), and its share of the work: heads, experts, padding.",
    "spread": "No rank is late all the time: look at what ranks do by turns, such as the "
    "scheduler's or the sampler's work, and at their CPUs.",
}


def collect_graph_launches(activity: Activity, _: Database) -> IntArray:
    """For each communication kernel of one rank the number of the graph launch that holds it."""
    calls, called = activity.calls, activity.ops.call[activity.ops.kind == COMMUNICATION]
    is_graph = np.r_[calls.match_names(activity.names, GRAPH_CALL), False]
    if not is_graph.any():
        return np.full(len(called), NO_LAUNCH)
    number = np.r_[np.cumsum(is_graph[:-1]) - 1, NO_LAUNCH]
    return np.where((called != NO_CALL) & is_graph[called], number[called], NO_LAUNCH)


@dataclass(frozen=True, eq=False)
class Skew:
    """How late each rank comes (ns by collective, a row a rank) after the first one; `late_row` is
    the row of the rank that the others wait for, None where they wait by turns.
    """

    arrivals: GraphArrivals
    late_row: int | None

    @property
    def spread(self) -> IntArray:
        """How long the last rank comes after the first one (ns)."""
        start = self.arrivals.start
        return np.asarray(start.max(axis=0) - start.min(axis=0), np.int64)

    def mean_ms(self, values: IntArray) -> float:
        """ns by collective as ms in the mean of all steady steps."""
        return float(values.sum()) / self.arrivals.views[0].steps / 1e6

    @property
    def lost_ms(self) -> float:
        """What ranks wait in the mean of all steps: the others for the late one, else all."""
        wait = self.arrivals.wait
        rows = [row for row in range(len(wait)) if row != self.late_row]
        return float(np.mean([self.mean_ms(wait[row]) for row in rows]))

    @property
    def at_first(self) -> float:
        """The part of the spread at the first collective of a launch: the launch came late."""
        first: Flags = self.arrivals.ordinal == 0
        return float(self.spread[first].sum()) / max(float(self.spread.sum()), 1.0)

    @property
    def cause(self) -> str:
        if self.late_row is None:
            return "spread"
        return "host" if self.at_first >= 0.5 else "compute"


def _find_skew(arrivals: GraphArrivals) -> Skew:
    """The rank that comes last, by the time for which the others wait."""
    start = arrivals.start
    last = np.argmax(start, axis=0)
    spread = start.max(axis=0) - start.min(axis=0)
    by_rank = np.bincount(last, weights=spread.astype(np.float64), minlength=len(start))
    most = int(np.argmax(by_rank))
    is_constant = by_rank[most] >= MOSTLY * max(float(by_rank.sum()), 1.0)
    return Skew(arrivals, most if is_constant else None)


def judge_rank_skew(views: Sequence[GraphView]) -> Judgement:
    """Find ranks that wait for others inside the graphs of an engine's iterations."""
    engines = [view for view in views if view.states.steps.are_iterations]
    if len(engines) < 2:
        return Judgement()
    skews = [_find_skew(arrivals) for arrivals in list_graph_arrivals(engines)]
    if not skews and any(_is_hidden(view) for view in engines):
        what = "arrivals at all-reduces inside CUDA graphs: nsys traced graphs as a whole"
        return Judgement(unjudged=(f"{what}; --cuda-graph-trace=node shows them",))
    costly = [skew for skew in skews if skew.arrivals.views[0].is_costly(skew.lost_ms)]
    return Judgement(tuple(map(_make_finding, costly)))


def _is_hidden(view: GraphView) -> bool:
    """Whether graphs ran whose kernels were not recorded."""
    budget = view.common.budget
    return budget is not None and bool(budget.of("inside graphs").any())


def _make_finding(skew: Skew) -> Finding:
    ranks = tuple(sorted(view.rank for view in skew.arrivals.views))
    late = ranks if skew.late_row is None else (skew.arrivals.views[skew.late_row].rank,)
    payers = () if skew.late_row is None else tuple(rank for rank in ranks if rank not in late)
    evidence = (_describe_spread(skew, ranks), *_describe_late(skew), _describe_worst(skew))
    advice = ADVICE[skew.cause]
    return Finding("rank_skew", late, skew.cause, evidence, advice, payers)


def _describe_spread(skew: Skew, ranks: tuple[int, ...]) -> str:
    arrivals, view = skew.arrivals, skew.arrivals.views[0]
    many = int(arrivals.ordinal.max()) + 1
    return (
        f"{format_ranks(ranks)}: {skew.mean_ms(skew.spread):.2f} of {view.step_ms:.2f} ms a step "
        f"between the first and the last arrival at {many} collectives of a graph, aligned by "
        f"their place in {arrivals.launches} launches"
    )


def _describe_late(skew: Skew) -> tuple[str, ...]:
    if skew.late_row is None:
        return ()
    first, is_last = skew.arrivals.ordinal == 0, skew.arrivals.wait[skew.late_row] == 0
    share = float(skew.spread[is_last].sum()) / max(float(skew.spread.sum()), 1.0)
    parts = skew.mean_ms(skew.spread[first]), skew.mean_ms(skew.spread[~first])
    return (
        f"rank {skew.arrivals.views[skew.late_row].rank} is the last one for {100 * share:.0f} % "
        f"of that time; {parts[0]:.2f} ms at the first one of a launch, {parts[1]:.2f} ms after it",
    )


def _describe_worst(skew: Skew) -> str:
    """The collective with the largest spread, by its place in the launch."""
    ordinal, spread = skew.arrivals.ordinal, skew.spread
    means = np.bincount(ordinal, weights=spread) / np.bincount(ordinal)
    worst = int(np.argmax(means))
    return f"most at collective {worst + 1} of a launch: {means[worst] / 1e6:.3f} ms in the mean"


def _edit(finding: Finding) -> Change | None:
    """The late rank does its work as the other ranks do."""
    if finding.cause == "spread":
        return None
    speed_up = speed_up_gpu if finding.cause == "compute" else speed_up_host
    part = "compute" if finding.cause == "compute" else "host"
    names = ", ".join(f"rank {rank}" for rank in finding.ranks)
    return Change(f"{names}'s {part}", combine([speed_up(rank) for rank in finding.ranks]))


def _explains(skews: Sequence[Finding], other: Finding) -> bool:
    """A straggler among the same ranks is told once, and so is communication that only waits."""
    ranks = {rank for skew in skews for rank in (*skew.ranks, *skew.payers)}
    return other.kind == "straggler" and ranks.issuperset(other.ranks)


RULE = FindingRule(
    kind="rank_skew",
    title="Ranks wait inside CUDA graphs",
    collect=collect_graph_launches,
    judge=judge_rank_skew,
    rows=(
        FindingRow(
            causes=("host", "compute", "spread"),
            when=(
                "ranks of an engine wait for each other at collectives inside CUDA graphs, which "
                "are aligned by their place in the launch (`--cuda-graph-trace=node`). `host`: "
                "one rank's launches come late; `compute`: it falls behind between two "
                "collectives; `spread`: the ranks come late by turns. It stands in for `straggler`"
            ),
        ),
    ),
    explains=_explains,
    time_ms=lambda view, _: measure_lost_time(view),
    edit=_edit,
)
