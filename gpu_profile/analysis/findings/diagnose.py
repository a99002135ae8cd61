"""Diagnose a run: findings with evidence and advice, ordered by the time that could be saved."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeVar

from gpu_profile.analysis.activity.cached import activities_of, host_ranges_of
from gpu_profile.analysis.activity.common_steps import common_steps, warm_up
from gpu_profile.analysis.activity.health import ReportHealth, report_health
from gpu_profile.analysis.activity.states import split_exposed
from gpu_profile.analysis.activity.steps import Steps, host_steps
from gpu_profile.analysis.findings.facts.common import CommonFacts, collect_common_facts
from gpu_profile.analysis.findings.finding import Finding, Judgement, drop_lone_rank, format_ranks
from gpu_profile.analysis.findings.overview import Overview, overview
from gpu_profile.analysis.findings.replayed_costs import replay_costs
from gpu_profile.analysis.findings.rule import FindingRule
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.findings.undecided_kernels import judge_undecided_kernels
from gpu_profile.analysis.findings.view import UNSEEN_SHARE, RankView, View
from gpu_profile.analysis.host.work import load_host_record
from gpu_profile.analysis.replay.plan import Plan, make_plan
from gpu_profile.analysis.replay.rank.build_graph import build_rank_graph
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from gpu_profile.analysis.replay.run_replay import Replay, prepare_replay
from gpu_profile.analysis.replay.shadow import Shadow, subtract_profiler
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.printable import name_program, printable
from gpu_profile.table import Column, Table

COLUMNS = (
    Column("Kind"),
    Column("Ranks"),
    Column("Cause"),
    Column("Per Step", "ms"),
    Column("Evidence"),
    Column("Advice"),
)

ViewT = TypeVar("ViewT", bound=RankView)


@dataclass(frozen=True)
class Diagnosis:
    """`findings`, the one with most time to save first; `unjudged`: what could not be judged, and
    why; `overview`: start-up and step times. `plan`: what to do first, or why that is not known.
    """

    findings: tuple[Finding, ...]
    unjudged: tuple[str, ...]
    overview: Overview = field(default_factory=Overview)
    plan: Plan | str = ""

    def with_cost(self, cost: str) -> "Diagnosis":
        """Add the cost of tracing to the findings about launches.

        `cost` is the text of runs.baseline.describe_cost(), "" if no baseline was measured.
        """
        added = f"tracing adds to this: {cost or 'how much, --baseline tells'}"
        with_cost = {kind for kind, rule in RULES.items() if rule.holds_tracing_cost}
        findings = tuple(
            replace(one, evidence=(*one.evidence, added)) if one.kind in with_cost else one
            for one in self.findings
        )
        return replace(self, findings=findings)

    def without_lone_rank(self) -> "Diagnosis":
        """The diagnosis for readers: in a run of rank 0 alone no text names it."""
        if not self.overview.is_alone:
            return self
        findings = tuple(
            replace(one, ranks=(), evidence=tuple(filter(None, map(drop_lone_rank, one.evidence))))
            for one in self.findings
        )
        return replace(self, findings=findings, unjudged=tuple(map(drop_lone_rank, self.unjudged)))

    def to_json(self) -> str:
        """The findings and the plan, as the schema "findings" describes them."""
        document = {
            "findings": [finding.as_json() for finding in self.findings],
            "unjudged": list(self.unjudged),
            **self.describe_plan(),
        }
        return json.dumps(document, indent=2)

    def describe_plan(self) -> dict[str, object]:
        """`plan` for JSON, or null and `why_no_plan`."""
        if isinstance(self.plan, str):
            return {"plan": None, "why_no_plan": self.plan}
        return {"plan": self.plan.as_json()}

    def to_text(self) -> str:
        """The findings as text; one line if there are none."""
        return "\n".join(self.to_blocks()) + "\n"

    def to_blocks(self, most: int = 0) -> Iterator[str]:
        """A text for each finding (the first `most`; 0: all), then for what could not be judged."""
        told = self.without_lone_rank()
        shown = told.findings[:most] if most else told.findings
        yield from (_format_block(number, finding) for number, finding in enumerate(shown, 1))
        if not self.findings and not any(text.startswith("anything") for text in self.unjudged):
            yield "Nothing found that is worth the time."
        if more_count := len(self.findings) - len(shown):
            yield name_program(f"{more_count} more: invoke diagnose")
        yield from (printable(f"Could not judge {text}.") for text in told.unjudged)
        yield from self.list_plan_lines()

    def list_plan_lines(self) -> list[str]:
        """The plan: a head and a line for each item; or one line that says why there is none."""
        if not isinstance(self.plan, str):
            return [printable(line) for line in self.plan.to_lines()]
        costs = any(one.per_step and one.cost_ms for one in self.findings)
        return [printable(f"No plan: {self.plan}.")] if self.plan and costs else []

    def to_table(self) -> Table:
        """A table with one row for each finding, for the page and CSV."""
        rows = tuple(
            (
                f.kind,
                ", ".join(map(str, f.ranks)),
                f.cause,
                round(f.cost_ms, 3) if f.per_step else None,
                "; ".join(f.evidence),
                f.advice,
            )
            for f in self.findings
        )
        return Table("findings", COLUMNS, rows)


@dataclass(frozen=True, eq=False)
class RankFacts:
    """The facts of one rank: those that many rules read, and by kind what each rule collected."""

    common: CommonFacts
    by_kind: Mapping[str, object]


@dataclass(frozen=True)
class DiagnosedReport:
    """The facts of one report; small and picklable.

    `hosts`: for a report without GPU work, (rank, steps by the host's clock) of each process.
    """

    ranks: tuple[RankFacts, ...]
    health: ReportHealth
    hosts: tuple[tuple[int, Steps], ...] = ()
    graphs: tuple[RankGraph, ...] = ()


def collect_report_facts(database: Database, scope: Scope) -> DiagnosedReport:
    """The facts of one report that the rules judge."""
    activities = activities_of(database, scope)
    record = load_host_record(database)
    ranks = tuple(
        RankFacts(
            collect_common_facts(activity, scope.offset_ns, database.path.name, record),
            {kind: rule.collect(activity, database) for kind, rule in RULES.items()},
        )
        for activity in activities
    )
    hosts = () if activities else host_ranges_of(database, scope)
    by_host = tuple((rank, host_steps(ranges)) for rank, ranges in hosts)
    health = replace(report_health(database, activities), joined=scope.joined)
    graphs = (build_rank_graph(one, database, scope.offset_ns) for one in activities)
    return DiagnosedReport(ranks, health, by_host, tuple(graphs))


def judge_run(
    parts: Sequence[DiagnosedReport], clock_error_ns: int = 0, control_ms: float = 0.0
) -> Diagnosis:
    """Judge all ranks together. `clock_error_ns`: the residual error of the reports' clocks.
    `control_ms`: the step without the profiler, 0 where it is not known.
    """
    facts = list(chain.from_iterable(part.ranks for part in parts))
    by_kind = _make_views(facts, clock_error_ns)
    views: Sequence[RankView] = next(iter(by_kind.values()))
    reports = sorted((part.health for part in parts), key=lambda health: health.report)
    nothing = Judgement(unjudged=("anything: the reports hold no GPU work",))
    judged = [_judge(rule, by_kind[rule.kind]) for rule in RULES.values()] if views else [nothing]
    alike = _keep_alike(views)
    judged += [judge_undecided_kernels(alike), _note_missing_kernels(alike)]
    judged += [rule.judge_reports(by_kind[rule.kind], reports) for rule in RULES.values()]
    findings = _unexplained([f for judgement in judged for f in judgement.findings])
    notes = list(chain.from_iterable(judgement.unjudged for judgement in judged))
    if views and not any(view.has_steps for view in views):
        findings, notes = _of_recording(findings, notes)
    facts_of_run = overview(views, list(chain.from_iterable(part.hosts for part in parts)))
    notes += [f"single steps: {reason}" for reason in facts_of_run.no_steps]
    replay = replay_parts(parts, clock_error_ns)
    shadow = _find_shadow(replay, control_ms)
    plan = replay if isinstance(replay, str) else make_plan(replay, shadow)
    ordered = replay_costs(findings, replay, plan, shadow)
    named = tuple(replace(one, advice=name_program(one.advice)) for one in ordered)
    return Diagnosis(named, tuple(dict.fromkeys(notes)), facts_of_run, plan)


def _find_shadow(replay: Replay | str, control_ms: float) -> Shadow | None:
    """What the profiler added, where a step without it is known."""
    if isinstance(replay, str) or not control_ms:
        return None
    return subtract_profiler(replay, control_ms)


def replay_parts(parts: Sequence[DiagnosedReport], clock_error_ns: int = 0) -> Replay | str:
    """The replay of the run; or on one line why nothing can be predicted."""
    ranks = [facts.common for part in parts for facts in part.ranks]
    incomplete = [one.health for one in ranks if one.health.unseen_share > UNSEEN_SHARE]
    if incomplete:
        return f"rank {incomplete[0].rank} has {incomplete[0].unseen} launches without a kernel"
    graphs = list(chain.from_iterable(part.graphs for part in parts))
    return prepare_replay(graphs, [one.states for one in ranks], clock_error_ns)


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
    return rule.judge(views)


def _note_missing_kernels(views: Sequence[RankView]) -> Judgement:
    """Which ranks are not judged by their idle time, because it may hold unrecorded kernels."""
    health = [view.common.health for view in views if not view.has_all_kernels]
    return Judgement(
        unjudged=tuple(
            f"idle time on rank {one.rank}: {one.unseen} of its {one.launches} kernel launches "
            "have no kernel in the recording"
            for one in health
        )
    )


def _of_recording(
    findings: Sequence[Finding], notes: Sequence[str]
) -> tuple[list[Finding], list[str]]:
    """The findings of a run without steps: idle time may be start-up then, so it becomes a note."""
    idle = [one for one in findings if RULES[one.kind].unclear_without_steps(one)]
    recording_findings = [finding.of_recording() for finding in findings if finding not in idle]
    more = [
        f"{finding.ms_per_step:.0f} ms of idle time on {format_ranks(finding.ranks)}: without "
        "steps, start-up cannot be told from the program's work"
        for finding in idle
    ]
    return recording_findings, [*(note.replace(" a step", " in all") for note in notes), *more]


def _make_table(parts: Sequence[DiagnosedReport]) -> Table:
    return judge_run(parts).to_table()


FINDINGS = Analysis("findings", collect_report_facts, _make_table)


def _unexplained(findings: Sequence[Finding]) -> list[Finding]:
    """Leave out findings that others explain, kind by kind: one that is left out explains nothing.

    With a "pipeline" or "experts" a rank is late because of how the work is distributed. What a
    "straggler" says of its host's time is no cost of "idle" or "host_bound", too.
    """
    kept = list(findings)
    for kind, rule in RULES.items():
        of_kind = [finding for finding in kept if finding.kind == kind]
        kept = [f for f in kept if not (of_kind and rule.explains(of_kind, f))]
    return [left for finding in kept if (left := finding.without_shares(kept))]


def _make_views(ranks: Sequence[RankFacts], clock_error_ns: int) -> dict[str, list[View[Any]]]:
    """By kind of rule, the views of all ranks in rank order, each with that rule's fact."""
    ordered = sorted(ranks, key=lambda one: (one.common.states.rank, one.common.states.device))
    splits = split_exposed([facts.common.states for facts in ordered], clock_error_ns)
    steps = [facts.common.states.steps for facts in ordered]
    drop, common = warm_up(steps), common_steps(steps)
    return {
        kind: [
            View(facts.common, split, min(first + drop, behind), behind, facts.by_kind[kind])
            for facts, split, (first, behind) in zip(ordered, splits, common, strict=True)
        ]
        for kind in RULES
    }


def _format_block(number: int, finding: Finding) -> str:
    ranks = f" on {', '.join(map(str, finding.ranks))}" if finding.ranks else ""
    cost = ", ".join(filter(None, (finding.cause, finding.describe_cost())))
    head = f"{number}. {finding.kind}{ranks}: {cost}"
    lines = (head, *(f"   - {line}" for line in finding.evidence), f"   > {finding.advice}")
    return "\n".join(map(printable, lines))
