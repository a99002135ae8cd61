"""The facts of a report that the rules judge: collected in the process that reads the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from gpu_profile.analysis.activity.cached import activities_of, host_ranges_of
from gpu_profile.analysis.activity.comm.lanes import Collectives
from gpu_profile.analysis.activity.health import ReportHealth, report_health
from gpu_profile.analysis.activity.states import RankStates, split_exposed
from gpu_profile.analysis.activity.steps.find_steps import host_steps
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.arrays.packed import pack_intervals
from gpu_profile.analysis.findings.facts.common import CommonFacts, collect_common_facts
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.findings.view import UNSEEN_SHARE
from gpu_profile.analysis.host.work import load_host_record
from gpu_profile.analysis.multi_report.clocks import read_session_start
from gpu_profile.analysis.replay.collect import collect_graphs
from gpu_profile.analysis.replay.rank.rank_graph import NoGraph, RankGraph
from gpu_profile.analysis.replay.run_replay import Replay, prepare_replay
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope

MOST_PROCESSES = 4  # a fork takes 4 ms and more, a replay 30: with more of them both take as long
ByKind = tuple[Mapping[str, object], ...]
"""By rank what each rule collected."""
NO_INTERVALS = pack_intervals(())


@dataclass(frozen=True, eq=False)
class RankFacts:
    """The facts of one rank: those that many rules read, and by kind what each rule collected."""

    common: CommonFacts
    by_kind: Mapping[str, object]


@dataclass(frozen=True)
class DiagnosedReport:
    """The facts of one report; small and picklable.

    `hosts`: for a report without GPU work, (rank, steps by the host's clock) of each process.
    `utc`: ns since 1970 at time 0 of the run's clock, 0 where the report does not say it.
    """

    ranks: tuple[RankFacts, ...]
    health: ReportHealth
    hosts: tuple[tuple[int, Steps], ...] = ()
    graphs: tuple[RankGraph | NoGraph, ...] = ()
    utc: int = 0


def collect_report_facts(database: Database, scope: Scope) -> DiagnosedReport:
    """The facts of one report that the rules judge, and the graphs that are replayed."""
    return replace(collect_rule_facts(database, scope), graphs=collect_graphs(database, scope))


def collect_rule_facts(database: Database, scope: Scope) -> DiagnosedReport:
    """The facts of one report that the rules judge, without the graphs."""
    return put_kinds(collect_common(database, scope), collect_by_kind(database, scope))


def collect_by_kind(database: Database, scope: Scope) -> ByKind:
    """By kind what each rule collects of each rank of one report."""
    return tuple(
        {kind: rule.collect(activity, database) for kind, rule in RULES.items()}
        for activity in activities_of(database, scope)
    )


def collect_common(database: Database, scope: Scope) -> DiagnosedReport:
    """The facts of one report that many rules read."""
    activities = activities_of(database, scope)
    record = load_host_record(database)
    ranks = tuple(
        RankFacts(collect_common_facts(activity, scope.offset_ns, database.path.name, record), {})
        for activity in activities
    )
    hosts = () if activities else host_ranges_of(database, scope)
    by_host = tuple((rank, host_steps(ranges)) for rank, ranges in hosts)
    health = replace(report_health(database, activities), is_joined=scope.is_joined)
    started = read_session_start(database)
    utc = started - scope.offset_ns if started else 0
    return DiagnosedReport(ranks, health, by_host, utc=utc)


def collect_lean_facts(database: Database, scope: Scope) -> DiagnosedReport:
    """The facts that many rules read, without the intervals of the states: 5 MB of 6 of a million
    kernels.
    """
    report = collect_common(database, scope)
    states = [replace(facts.common.states, packed_exposed=NO_INTERVALS) for facts in report.ranks]
    return replace(report, ranks=_put_states(report.ranks, states))


def join_facts(
    lean: DiagnosedReport,
    by_kind: ByKind,
    graphs: Sequence[RankGraph | NoGraph],
    states: Sequence[RankStates],
) -> DiagnosedReport:
    """collect_rule_facts() of collect_lean_facts(), collect_by_kind(), the graphs and the states
    of the same report.

    The states stay the same objects, because split_exposed() computes once for each of them.
    """
    pairs = zip(states, (facts.common.states.start_up for facts in lean.ranks), strict=True)
    started = [
        rank if rank.start_up == start_up else replace(rank, start_up=start_up)
        for rank, start_up in pairs
    ]
    report = replace(lean, ranks=_put_states(lean.ranks, started), graphs=tuple(graphs))
    return put_kinds(report, by_kind)


def put_collectives(report: DiagnosedReport, collectives: Sequence[Collectives]) -> DiagnosedReport:
    """The report with these collectives, one of each rank."""
    pairs = zip((facts.common.states for facts in report.ranks), collectives, strict=True)
    states = [replace(rank, collectives=of_rank) for rank, of_rank in pairs]
    return replace(report, ranks=_put_states(report.ranks, states))


def put_kinds(report: DiagnosedReport, by_kind: ByKind) -> DiagnosedReport:
    """The report with what each rule collected."""
    pairs = zip(report.ranks, by_kind, strict=True)
    return replace(report, ranks=tuple(replace(facts, by_kind=kinds) for facts, kinds in pairs))


def _put_states(ranks: Sequence[RankFacts], states: Sequence[RankStates]) -> tuple[RankFacts, ...]:
    return tuple(
        replace(facts, common=replace(facts.common, states=of_rank))
        for facts, of_rank in zip(ranks, states, strict=True)
    )


def replay_parts(
    parts: Sequence[DiagnosedReport],
    clock_error_ns: int = 0,
    processes: int = 1,
    known: Replay | str | None = None,
) -> Replay | str:
    """The replay of the run, by so many processes (MOST_PROCESSES at most); or on one line why
    nothing can be predicted. `known`: of the same graphs, if the caller has it.
    """
    ranks = [facts.common for part in parts for facts in part.ranks]
    incomplete = [rank.health for rank in ranks if rank.health.unseen_share > UNSEEN_SHARE]
    if incomplete:
        rank = incomplete[0]
        return f"rank {rank.rank} has {rank.unseen_launches} launches without a kernel"
    if known is not None:
        return known
    graphs = list(chain.from_iterable(part.graphs for part in parts))
    splits = split_exposed([rank.states for rank in ranks], clock_error_ns)
    replay = prepare_replay(graphs, splits, clock_error_ns)
    return share_replay(replay, processes)


def share_replay(replay: Replay | str, processes: int) -> Replay | str:
    """The replay by so many processes, MOST_PROCESSES at most."""
    if isinstance(replay, str):
        return replay
    return replace(replay, processes=min(processes, MOST_PROCESSES))
