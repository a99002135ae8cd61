"""Table step_trace: each step of each rank, with its times on the GPU and on the host."""

from collections.abc import Iterator, Sequence
from itertools import chain

from gpu_profile.analysis.activity.cached import states_of
from gpu_profile.analysis.activity.serving.marks import KINDS, NOT_TOLD
from gpu_profile.analysis.activity.states import RankStates
from gpu_profile.analysis.activity.steps.common_steps import common_steps, warm_up
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Rank"),
    Column("Step"),
    Column("Start", "ns"),
    Column("Duration", "ns"),
    Column("Host Start", "ns"),
    Column("Host Duration", "ns"),
    Column("Steady"),
    Column("Kind"),
    Column("Batch"),
)


def merge_step_trace(parts: Sequence[Sequence[RankStates]]) -> Table:
    """One row for each step, numbered from 0 on each rank; times are on the run's clock.

    Steady is 1 for the steps that step_sum and the findings use: those that every rank recorded,
    without the leading ones that are warm-up on any rank.
    """
    ranks = sorted(chain.from_iterable(parts), key=lambda part: (part.rank, part.device))
    steps = [part.steps for part in ranks]
    drop, pairs = warm_up(steps), zip(ranks, common_steps(steps), strict=True)
    rows = chain.from_iterable(
        _build_rows(part, min(first + drop, stop), stop) for part, (first, stop) in pairs
    )
    return Table("step_trace", COLUMNS, tuple(rows))


def _build_rows(part: RankStates, first: int, stop: int) -> Iterator[tuple[Cell, ...]]:
    steps = part.steps
    columns = (
        steps.start,
        steps.end - steps.start,
        steps.host_start,
        steps.host_end - steps.host_start,
    )
    for number, times in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        yield (part.rank, number, *times, int(first <= number < stop), *_tell_kind(steps, number))


def _tell_kind(steps: Steps, number: int) -> tuple[Cell, Cell]:
    """Kind and batch of an iteration; None for what is not known."""
    if not steps.are_iterations:
        return None, None
    batch = int(steps.batch[number])
    return KINDS[int(steps.kind[number])], None if batch == NOT_TOLD else batch


STEP_TRACE = Analysis(
    "step_trace",
    states_of,
    merge_step_trace,
    doc="each step of each rank: its start and duration on the GPU and on the host",
    claims="derived: where a step begins, unless a range marks it (step_sum); times are measured",
)
