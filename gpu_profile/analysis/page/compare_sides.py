"""What the page of a comparison shows of each side: one run's ranks, steps and time by state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpu_profile.analysis.activity.cached import states_of
from gpu_profile.analysis.our_tables.step_sum import STEP_SUM
from gpu_profile.analysis.our_tables.temporal_breakdown import TEMPORAL_BREAKDOWN
from gpu_profile.analysis.page.events import RankPicture, budget_of, join_pictures
from gpu_profile.analysis.page.sections.host_side import all_pictures
from gpu_profile.analysis.page.timeline_data import Encoded, Side, WaitsOf, encode_sides, waits_of
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.table import Table

# Of both sides together, as of the page of one run.
_EVENTS, _BINS, _WAITS = 1_000_000, 130_000, 100_000
_TABLES = (TEMPORAL_BREAKDOWN, STEP_SUM)


@dataclass(frozen=True, eq=False)
class ComparedSide:
    """One run of a side, `name` "base" or "new". `tables` are those of _TABLES."""

    name: str
    ranks: Sequence[RankPicture]
    waits: WaitsOf
    tables: Mapping[str, Table]

    @property
    def start(self) -> int:
        """The first operation of the run (ns on its clock)."""
        return min((rank.start for rank in self.ranks), default=0)

    def begin_of(self, step: int) -> int:
        """When this step began on the first rank; the run's start where it has no such step."""
        first = self.ranks[0].steps_start if self.ranks else np.empty(0, np.int64)
        return int(first[step]) if step < len(first) else self.start


def side_analyses(reports: int) -> list[Analysis]:
    """What is read of each report; `reports`: of both sides together."""
    budget = budget_of(reports, _EVENTS, _BINS)
    return [
        Analysis("pictures", partial(all_pictures, budget=budget), _no_table),
        Analysis("states", states_of, _no_table),
        *_TABLES,
    ]


def _no_table(_parts: Sequence[object]) -> Table:
    return Table("", (), ())


def make_side(name: str, answers: Sequence[Sequence[Any]], clock_error_ns: int) -> ComparedSide:
    """The side of what side_analyses() found in its reports."""
    ranks = join_pictures([answer[0] for answer in answers])
    states = [state for answer in answers for state in answer[1]]
    tables = {
        analysis.name: analysis.merge([answer[2 + place] for answer in answers])
        for place, analysis in enumerate(_TABLES)
    }
    waits = waits_of(states, clock_error_ns, _WAITS // max(1, 2 * len(ranks)))
    return ComparedSide(name, ranks, waits, tables)


def encode_aligned(sides: Sequence[ComparedSide], redact: Callable[[str], str]) -> Encoded:
    """The timeline's data, with the second step of all runs at time 0 of its axis.

    The first one often holds warm-up.
    """
    begins = [side.begin_of(1) for side in sides]
    lead = max(begin - side.start for begin, side in zip(begins, sides, strict=True))
    parts = [
        Side(side.name, side.ranks, side.waits, begin - lead)
        for side, begin in zip(sides, begins, strict=True)
    ]
    return encode_sides(parts, redact, (), -lead)
