"""The replay of a run and its plan, made while workers still read the rest of the reports."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.comm.lanes import NO_COLLECTIVES
from gpu_profile.analysis.findings.diagnose import list_unfound
from gpu_profile.analysis.findings.diagnosed_report import (
    DiagnosedReport,
    collect_by_kind,
    collect_common,
    put_collectives,
    put_kinds,
    replay_parts,
    share_replay,
)
from gpu_profile.analysis.multi_report.work import Answer, Partials
from gpu_profile.analysis.multi_report.workers.count import count_cores
from gpu_profile.analysis.replay.collect import ReplayPart, collect_replay, join_parts
from gpu_profile.analysis.replay.plan.make_plan import make_plan
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.find_shadow import find_shadow, replay_prices
from gpu_profile.analysis.replay.shadow.host_scale import FACTORS
from gpu_profile.analysis.replay.shadow.plain_step import PlainStep
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Table


def collect_facts_beside(database: Database, scope: Scope) -> DiagnosedReport:
    """collect_common() without the collectives, which are in the report's ReplayPart."""
    facts = collect_common(database, scope)
    return put_collectives(facts, [NO_COLLECTIVES] * len(facts.ranks))


def _no_table(_parts: Sequence[object]) -> Table:
    return Table("", (), ())


FIRST = (Analysis("replay", collect_replay, _no_table, loads=activities_of),)
REST = (
    Analysis("facts", collect_facts_beside, _no_table),
    Analysis("rules", collect_by_kind, _no_table),
)
"""What diagnose reads of each report: FIRST for the replay, and in turns what the rules need."""


@dataclass(frozen=True, eq=False)
class ReplayAhead:
    """The replay of so many `reports`. Its shadow and plan are kept, as judge_run() asks for them
    where no finding and no rare pause changes them.
    """

    replay: Replay | str
    reports: int


def replay_ahead(
    replay: Replay | str, reports: int, control: PlainStep, processes: int = 1
) -> ReplayAhead:
    """The replay with what judge_run() will ask. `control`: as of judge_run()."""
    replay = share_replay(replay, processes)
    if not isinstance(replay, str):
        usual_ms = control.find_ms(replay.step_ms)
        shadow = find_shadow(replay, usual_ms, control.callback_ns, control.phases)
        make_plan(replay, shadow, left_out=list_unfound(()))
        if shadow is None or not shadow.is_measured:
            replay_prices(replay, (shadow and shadow.factors) or FACTORS)
    return ReplayAhead(replay, reports)


def replay_parts_ahead(
    answers: Sequence[Answer], clock_error_ns: int, control: PlainStep
) -> ReplayAhead:
    """The replay of the reports of which FIRST is read. Copies compute some things anew."""
    parts = [answer[0] for answer in answers if isinstance(answer, Partials)]
    replay = join_parts(parts, clock_error_ns)
    return replay_ahead(replay, len(parts), control, count_cores() // 2)


def join_answer(answer: Sequence[Any]) -> DiagnosedReport:
    """The facts of a report of which FIRST and REST are read."""
    part: ReplayPart = answer[0]
    facts: DiagnosedReport = put_kinds(answer[1], answer[2])
    # The same objects, because match_collectives() matches them once.
    facts = put_collectives(facts, [rank.collectives for rank in part.ranks])
    return replace(facts, graphs=part.graphs)


def choose_replay(
    parts: Sequence[DiagnosedReport], clock_error_ns: int, processes: int, ahead: ReplayAhead | None
) -> Replay | str:
    """The replay that was made ahead, where it is of the same reports; else that of replay_parts().

    A report whose first part was read may be damaged in the rest.
    """
    known = ahead.replay if ahead and ahead.reports == len(parts) else None
    return replay_parts(parts, clock_error_ns, processes, known)
