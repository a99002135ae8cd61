"""Step times by rank."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from gpu_profile.analysis.activity.cached import states_of
from gpu_profile.analysis.activity.states import RankStates
from gpu_profile.analysis.activity.steps import warm_up
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Rank"),
    Column("Steps"),
    Column("Dropped"),
    *(Column(name, "ns") for name in ("Avg", "Med", "P95", "Min", "Max", "StdDev")),
    Column("CV", "%"),
    Column("Host Med", "ns"),
    Column("Found By"),
)


def merge(parts: Sequence[Sequence[RankStates]]) -> Table:
    """One row a rank: GPU time from a step's first operation to the next step's.

    Leading steps that are still warming up on any rank are dropped on all. A rank without
    steps has a row that says so.
    """
    ranks = sorted(chain.from_iterable(parts), key=lambda part: (part.rank, part.device))
    drop = warm_up([part.steps for part in ranks])
    return Table("step_sum", COLUMNS, tuple(_row(part, drop) for part in ranks))


def _row(part: RankStates, drop: int) -> tuple[Cell, ...]:
    steps = part.steps
    time = (steps.end - steps.start)[drop:]
    if not len(time):
        return (part.rank, 0, 0, *(None,) * 8, "no steps found")
    low, middle, high = np.quantile(time, (0, 0.5, 1))
    spread = float(np.std(time, ddof=1)) if len(time) > 1 else 0.0
    mean = float(np.mean(time))
    facts = (mean, middle, np.quantile(time, 0.95), low, high, spread, 100 * spread / mean)
    host = float(np.median((steps.host_end - steps.host_start)[drop:]))
    numbers = tuple(round(float(fact), 1) for fact in facts)
    return (part.rank, len(time), drop, *numbers, round(host, 1), steps.source)


STEP_SUM = Analysis("step_sum", states_of, merge)
