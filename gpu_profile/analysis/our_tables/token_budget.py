"""Table token_budget: where the time of an engine's iterations goes, by kind and quantile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from gpu_profile.analysis.activity.cached import activities_of, compute_share, states_of
from gpu_profile.analysis.activity.serving.budget import PARTS, Budget, measure_budget
from gpu_profile.analysis.activity.serving.marks import KINDS
from gpu_profile.analysis.activity.serving.quantiles import QUANTILES, average_near
from gpu_profile.analysis.activity.states import RankStates
from gpu_profile.analysis.activity.steps.common_steps import common_steps, warm_up
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Rank"),
    Column("Kind"),
    Column("Steps"),
    Column("Share", "%"),
    Column("Quantile"),
    Column("Step", "ns"),
    *(Column(part.title(), "ns") for part in PARTS),
)


@dataclass(frozen=True, eq=False)
class RankBudget:
    """The states of one rank, and the budget of its steps."""

    states: RankStates
    budget: Budget


def _collect(database: Database, scope: Scope) -> list[RankBudget]:
    activities, states = activities_of(database, scope), states_of(database, scope)
    return [
        RankBudget(part, measure_budget(activity))
        for activity, part in zip(activities, states, strict=True)
        if part.steps.are_iterations
    ]


def merge_budgets(parts: Sequence[Sequence[RankBudget]]) -> Table:
    """Three rows for each rank and kind: the mean of the iterations near a quantile of their time.

    The columns after Step sum to it. Share: of the time of all iterations. Rows cover the steps
    that step_sum covers; a run without iterations of an engine has none.
    """
    ranks = sorted(chain.from_iterable(parts), key=lambda rank: rank.states.rank)
    steps = [rank.states.steps for rank in ranks]
    drop, pairs = warm_up(steps), zip(ranks, common_steps(steps), strict=True)
    rows = (_list_rows(rank, min(first + drop, stop), stop) for rank, (first, stop) in pairs)
    return Table("token_budget", COLUMNS, tuple(chain.from_iterable(rows)))


def _list_rows(rank: RankBudget, first: int, stop: int) -> Iterator[tuple[Cell, ...]]:
    steps = rank.states.steps
    time, kinds = (steps.end - steps.start)[first:stop], steps.kind[first:stop]
    parts = rank.budget.parts[first:stop]
    for kind, name in enumerate(KINDS):
        rows = np.flatnonzero(kinds == kind)
        if not len(rows):
            continue
        share = compute_share(float(time[rows].sum()), float(time.sum()))
        for label, quantile in QUANTILES.items():
            means = [round(ns) for ns in average_near(parts[rows], quantile)]
            yield (rank.states.rank, name, len(rows), share, label, sum(means), *means)


TOKEN_BUDGET = Analysis(
    "token_budget",
    _collect,
    merge_budgets,
    doc="an engine's iterations by kind: median, p95 and p99, split in parts that sum to them",
    claims="derived: the parts of an iteration; its time is measured",
)
