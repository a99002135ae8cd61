"""Diagnose a run: findings with evidence and advice, those of the plan first."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.health import ReportHealth
from gpu_profile.analysis.activity.states import split_exposed
from gpu_profile.analysis.activity.steps.common_steps import common_steps, warm_up
from gpu_profile.analysis.findings.cost_limits import limit_costs
from gpu_profile.analysis.findings.diagnosed_report import (
    DiagnosedReport,
    RankFacts,
    collect_report_facts,
    replay_parts,
)
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.evidence.hidden_kernels import judge_hidden_kernels
from gpu_profile.analysis.findings.evidence.undecided_kernels import judge_undecided_kernels
from gpu_profile.analysis.findings.facts.rare_pauses import (
    PauseTimes,
    RareCauses,
    leave_out_rare,
    lengthen_rare,
    measure_pauses,
)
from gpu_profile.analysis.findings.facts.rare_steps import measure_portions
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.overview import Overview, overview
from gpu_profile.analysis.findings.replayed_costs import (
    has_edit,
    replay_costs,
)
from gpu_profile.analysis.findings.rule import FindingRule
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.findings.view import RankView, View
from gpu_profile.analysis.replay.changes import Change
from gpu_profile.analysis.replay.edits.causes import EARLY_COPIES, SMALL_GRIDS, TINY_LAUNCHES
from gpu_profile.analysis.replay.edits.graph_captures import CAPTURES
from gpu_profile.analysis.replay.edits.iterations import FEW_COPIES
from gpu_profile.analysis.replay.plan.make_plan import make_gpu_change, make_plan
from gpu_profile.analysis.replay.plan.plan import Plan
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.find_shadow import find_shadow
from gpu_profile.analysis.replay.shadow.plain_step import NO_STEP, PlainStep
from gpu_profile.analysis.replay.shadow.shadow import Shadow
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.printable import name_program
from gpu_profile.redact import CommandLine
from gpu_profile.table import Table

ViewT = TypeVar("ViewT", bound=RankView)


def judge_run(
    parts: Sequence[DiagnosedReport],
    clock_error_ns: int = 0,
    control: PlainStep = NO_STEP,
    replay: Replay | str | None = None,
) -> Diagnosis:
    """Judge all ranks together. `clock_error_ns`: the residual error of the reports' clocks.
    `control`: the step without the recording. `replay`: of these, by replay_parts(), if the caller
    has it.
    """
    by_kind = _view_ranks(parts, clock_error_ns)
    views: Sequence[RankView] = next(iter(by_kind.values()))
    judged = _judge_rules(parts, by_kind)
    replay = replay_parts(parts, clock_error_ns) if replay is None else replay
    control_ms = control.ms if isinstance(replay, str) else control.find_ms(replay.step_ms)
    findings = _choose_findings(judged, by_kind, replay, control_ms)
    notes = list(chain.from_iterable(judgement.unjudged for judgement in judged))
    if views and not any(view.has_steps for view in views):
        findings, notes = _of_recording(findings, notes)
    facts_of_run = _describe_run(parts, views)
    notes += [f"single steps: {reason}" for reason in facts_of_run.no_steps]
    pauses = _measure_pauses(views, replay, control_ms)
    usual_ms = control_ms if control.ratio else leave_out_rare(replay, control_ms, pauses)
    shadow = _subtract_profiler(replay, control._replace(ms=usual_ms))
    pauses = lengthen_rare(pauses, shadow, usual_ms, control_ms)
    left_out = list_unfound(findings)
    plan = replay if isinstance(replay, str) else make_plan(replay, shadow, left_out=left_out)
    portions = {} if isinstance(replay, str) else measure_portions(RULES, by_kind, replay)
    ordered = replay_costs(findings, replay, plan, shadow, RareCauses(pauses, portions))
    named = tuple(replace(finding, advice=name_program(finding.advice)) for finding in ordered)
    plan = _drop_items_without_findings(plan, named)
    diagnosis = Diagnosis(named, tuple(dict.fromkeys(notes)), facts_of_run, plan)
    return diagnosis.with_texts(_hide_secrets)


def _subtract_profiler(replay: Replay | str, control: PlainStep) -> Shadow | None:
    if isinstance(replay, str):
        return None
    return find_shadow(replay, control.ms, control.callback_ns, control.phases)


def _judge_rules(
    parts: Sequence[DiagnosedReport], by_kind: Mapping[str, Sequence[View[Any]]]
) -> list[Judgement]:
    """What the rules say of all ranks together, without a replay."""
    views: Sequence[RankView] = next(iter(by_kind.values()))
    nothing = Judgement(unjudged=("anything: the reports hold no GPU work",))
    judged = [_judge(rule, by_kind[rule.kind]) for rule in RULES.values()] if views else [nothing]
    alike = _keep_alike(views)
    judged += [judge_undecided_kernels(alike), judge_hidden_kernels(alike)]
    judged += [_note_missing_kernels(alike)]
    reports = _sort_health(parts)
    return judged + [rule.judge_reports(by_kind[rule.kind], reports) for rule in RULES.values()]


def find_usual_control(
    parts: Sequence[DiagnosedReport], clock_error_ns: int, replay: Replay, control_ms: float
) -> float:
    """The control of the replayed steps, as judge_run() takes it."""
    views: Sequence[RankView] = next(iter(_view_ranks(parts, clock_error_ns).values()))
    return leave_out_rare(replay, control_ms, _measure_pauses(views, replay, control_ms))


def _measure_pauses(
    views: Sequence[RankView], replay: Replay | str, control_ms: float
) -> Mapping[int, PauseTimes]:
    if isinstance(replay, str):
        return {}
    return measure_pauses(_keep_alike(views), replay, control_ms > 0)


def _view_ranks(
    parts: Sequence[DiagnosedReport], clock_error_ns: int
) -> dict[str, list[View[Any]]]:
    return make_views(list(chain.from_iterable(part.ranks for part in parts)), clock_error_ns)


def _sort_health(parts: Sequence[DiagnosedReport]) -> list[ReportHealth]:
    return sorted((part.health for part in parts), key=lambda health: health.report)


def _describe_run(parts: Sequence[DiagnosedReport], views: Sequence[RankView]) -> Overview:
    hosts = list(chain.from_iterable(part.hosts for part in parts))
    others = list(chain.from_iterable(report.others for report in _sort_health(parts)))
    utc = next((part.utc for part in parts if part.utc), 0)
    return overview(views, hosts, utc, others)


def list_unfound(findings: Sequence[Finding]) -> tuple[Change, ...]:
    """The changes of what many steps have a few of, where no finding tells it: a model's own tiny
    kernels are launches as all others, the copies of a batch are few, and graphs are updated. Ranks
    that are late by turns, or alone in each n-th step, get equal work, not that of the others.
    """
    kinds = {finding.kind for finding in findings if has_edit(finding)}
    edits = [RULES[finding.kind].edit(finding) for finding in findings]
    of_kinds = (TINY_LAUNCHES, SMALL_GRIDS, FEW_COPIES, EARLY_COPIES)
    left_out = [change for change in of_kinds if not kinds & {*change.kinds}]
    if CAPTURES not in edits:
        left_out.append(CAPTURES)
    for finding in findings:
        if finding.kind == "straggler" and finding.cause in ("spread", "alone"):
            left_out += map(make_gpu_change, finding.ranks)
    return tuple(left_out)


def _drop_items_without_findings(plan: Plan | str, findings: Sequence[Finding]) -> Plan | str:
    """The plan, without its items where no finding is told.

    A host that launches too slowly is left out where that may be the profiler's doing.
    """
    return plan if findings or isinstance(plan, str) else replace(plan, items=())


def _hide_secrets(text: str) -> str:
    """Hide credentials in the name of a range or a kernel, which may be a command line."""
    return CommandLine().redact_line(text)


def _choose_findings(
    judged: Sequence[Judgement],
    by_kind: Mapping[str, Sequence[View[Any]]],
    replay: Replay | str,
    control_ms: float,
) -> list[Finding]:
    """The findings that may be worth the time, without those that others explain."""
    candidates = [finding for judgement in judged for finding in judgement.findings]
    alike = {kind: _keep_alike(views) for kind, views in by_kind.items()}
    is_replayed = (lambda finding: False) if isinstance(replay, str) else has_edit
    return _leave_explained(limit_costs(candidates, alike, is_replayed, control_ms))


def _keep_alike(views: Sequence[ViewT]) -> Sequence[ViewT]:
    """The ranks with steps, or all ranks if none has steps.

    Figures of ranks with steps are means over steps, and without steps sums over the recording:
    these cannot be compared.
    """
    return [view for view in views if view.has_steps] or views


def _judge(rule: FindingRule[Any], views: Sequence[View[Any]]) -> Judgement:
    views = _keep_alike(views)
    if rule.needs_all_kernels:
        views = [view for view in views if view.has_all_kernels]
    judged = rule.judge(views)
    placed = tuple(
        replace(finding, place=rule.place(views, finding)) for finding in judged.findings
    )
    return replace(judged, findings=placed)


def _note_missing_kernels(views: Sequence[RankView]) -> Judgement:
    """Which ranks are not judged by their idle time, because it may hold unrecorded kernels."""
    health = [view.common.health for view in views if not view.has_all_kernels]
    return Judgement(
        unjudged=tuple(
            f"idle time on rank {rank.rank}: {rank.unseen_launches} of its {rank.launches} kernel "
            "launches have no kernel in the recording"
            for rank in health
        )
    )


def _of_recording(
    findings: Sequence[Finding], notes: Sequence[str]
) -> tuple[list[Finding], list[str]]:
    """The findings of a run without steps: idle time may be start-up then, so it becomes a note."""
    idle = [finding for finding in findings if RULES[finding.kind].unclear_without_steps(finding)]
    recording_findings = [finding.of_recording() for finding in findings if finding not in idle]
    more = [
        f"{finding.at_most_ms:.0f} ms of idle time on {format_ranks(finding.ranks)}: without "
        "steps, start-up cannot be told from the program's work"
        for finding in idle
    ]
    return recording_findings, [*(note.replace(" a step", " in all") for note in notes), *more]


def _make_table(parts: Sequence[DiagnosedReport]) -> Table:
    return judge_run(parts).to_table()


FINDINGS = Analysis(
    "findings", collect_report_facts, _make_table, takes_long=True, loads=activities_of
)


def _leave_explained(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out findings that others explain, kind by kind: one that is left out explains nothing.

    With a "pipeline" or "experts" a rank is late because of how the work is distributed.
    """
    rest = list(findings)
    for kind, rule in RULES.items():
        of_kind = [finding for finding in rest if finding.kind == kind]
        rest = [f for f in rest if not (of_kind and rule.explains(of_kind, f))]
    return rest


def make_views(ranks: Sequence[RankFacts], clock_error_ns: int) -> dict[str, list[View[Any]]]:
    """By kind of rule, the views of all ranks in rank order, each with that rule's fact."""
    ordered = sorted(ranks, key=lambda rank: (rank.common.states.rank, rank.common.states.device))
    splits = split_exposed([facts.common.states for facts in ordered], clock_error_ns)
    steps = [facts.common.states.steps for facts in ordered]
    drop, common = warm_up(steps), common_steps(steps)
    return {
        kind: [
            View(facts.common, split, min(first + drop, stop), stop, facts.by_kind[kind])
            for facts, split, (first, stop) in zip(ordered, splits, common, strict=True)
        ]
        for kind in RULES
    }
