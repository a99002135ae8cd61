"""Table step_sum: step times of each rank."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

from gpu_profile.analysis.activity.cached import states_of
from gpu_profile.analysis.activity.serving.marks import KINDS
from gpu_profile.analysis.activity.states import RankStates
from gpu_profile.analysis.activity.steps.common_steps import common_steps, warm_up
from gpu_profile.analysis.arrays.types import IntArray
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
    Column("Kinds"),
)


def merge_steps(parts: Sequence[Sequence[RankStates]]) -> Table:
    """One row for each rank: time on the GPU from a step's first operation to the next step's.

    All rows cover the same steps: those that every rank recorded, without the leading ones that
    are warm-up on any rank. A rank without steps has a row "no steps found".
    """
    ranks = sorted(chain.from_iterable(parts), key=lambda part: (part.rank, part.device))
    steps = [part.steps for part in ranks]
    drop, pairs = warm_up(steps), zip(ranks, common_steps(steps), strict=True)
    rows = [_build_row(part, min(first + drop, stop), stop) for part, (first, stop) in pairs]
    return Table("step_sum", COLUMNS, tuple(rows))


def _build_row(part: RankStates, first: int, stop: int) -> tuple[Cell, ...]:
    steps = part.steps
    time = (steps.end - steps.start)[first:stop]
    if not len(time):
        return (part.rank, 0, 0, *(None,) * 8, "no steps found", None)
    low, middle, high = np.quantile(time, (0, 0.5, 1))
    spread = float(np.std(time, ddof=1)) if len(time) > 1 else 0.0
    mean = float(np.mean(time))
    facts = (mean, middle, np.quantile(time, 0.95), low, high, spread, 100 * spread / max(mean, 1))
    host = float(np.median((steps.host_end - steps.host_start)[first:stop]))
    numbers = tuple(round(float(fact), 1) for fact in facts)
    counts = (part.rank, len(time), len(steps) - len(time))
    return (*counts, *numbers, round(host, 1), steps.source, count_kinds(steps.kind[first:stop]))


def count_kinds(kind: IntArray) -> str | None:
    """For example "decode 812, mixed 4"; None for steps that are no iterations of an engine."""
    counts = Counter(KINDS[code] for code in kind.tolist())
    return ", ".join(f"{name} {counts[name]}" for name in KINDS if counts[name]) or None


STEP_SUM = Analysis(
    "step_sum",
    states_of,
    merge_steps,
    doc="step times by rank, and how the steps were found",
    claims="derived: where a step begins, unless Found By is a range; the times are measured",
)
