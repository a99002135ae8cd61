"""Write a run as one HTML file that needs no server, no network and no other file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from gpu_profile.analysis.activity.cached import states_of
from gpu_profile.analysis.activity.load.kept_columns import keep_activities
from gpu_profile.analysis.activity.states import RankStates, split_exposed
from gpu_profile.analysis.findings.diagnose import judge_run
from gpu_profile.analysis.findings.diagnosed_report import (
    ByKind,
    DiagnosedReport,
    collect_by_kind,
    collect_lean_facts,
    join_facts,
)
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.replay_ahead import ReplayAhead, choose_replay, replay_ahead
from gpu_profile.analysis.host.samples import HostSamples
from gpu_profile.analysis.modules.module_kernels import ModuleKernel
from gpu_profile.analysis.multi_report.forked_copy import CAN_FORK, ForkedCopy
from gpu_profile.analysis.multi_report.omissions import tell_omissions
from gpu_profile.analysis.multi_report.parallel import merge_answers
from gpu_profile.analysis.multi_report.readers import Readers
from gpu_profile.analysis.multi_report.work import Answer, Notify, Partials, ReportSource
from gpu_profile.analysis.multi_report.workers.count import count_cores
from gpu_profile.analysis.page.events import RankPicture, budget_of, join_pictures
from gpu_profile.analysis.page.html_text import (
    FOLDED,
    SHOWN,
    PageData,
    redact_name,
    redact_table,
    render_page,
)
from gpu_profile.analysis.page.path_rows import draw_path
from gpu_profile.analysis.page.sections.collectives import comm_sizes
from gpu_profile.analysis.page.sections.flame import flame_part
from gpu_profile.analysis.page.sections.gpu_counters import GpuCounters, counters_part
from gpu_profile.analysis.page.sections.host_side import all_pictures
from gpu_profile.analysis.page.sections.modules import modules_part
from gpu_profile.analysis.page.sections.report_facts import PageReport, report_facts, run_facts
from gpu_profile.analysis.page.timeline_data import Edges, timeline_data, waits_of
from gpu_profile.analysis.replay.collect import collect_graphs
from gpu_profile.analysis.replay.rank.rank_graph import NoGraph, RankGraph
from gpu_profile.analysis.replay.run.matched_ranks import match_ranks
from gpu_profile.analysis.replay.run_replay import Replay, prepare_replay
from gpu_profile.analysis.replay.shadow.plain_step import NO_STEP, PlainStep
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.analysis.timeline.path_track import list_stretches_of
from gpu_profile.errors import GpuProfileError
from gpu_profile.files import write_atomically
from gpu_profile.table import Column, Table

# The most events (GPU operations; calls of the host are 1.5 times as many), bins and waits in the
# page, over all ranks: about 12 of its 20 MB.
EVENTS, BINS, WAITS = 1_000_000, 130_000, 100_000
Judge = Callable[[], Diagnosis]
_BESIDE = ("graphs", "rules")
"""Collected by a copy of a report's worker: these beside the states, those beside the rest."""
_OF_GAPS = ("idle_gaps", "capture_health")
"""Tables of what the states have found; a copy makes the others while those are found."""
_TABLES = tuple(dict.fromkeys((*SHOWN, *(table for table, _ in FOLDED))))


class _Parts(NamedTuple):
    """What is read of a report for the page alone."""

    states: list[RankStates]
    graphs: tuple[RankGraph | NoGraph, ...]
    facts: PageReport
    findings: DiagnosedReport
    rules: ByKind
    pictures: list[RankPicture]
    host: list[HostSamples]
    counters: GpuCounters
    modules: list[ModuleKernel]


_OF_REPLAY = ("states", "graphs")
"""The parts that the replay needs, which are read first."""


def write_page(
    sources: Sequence[ReportSource],
    output: Path,
    *,
    title: str = "GPU profile",
    known: Mapping[str, str] | None = None,
    redactor: Redactor | None = None,
    clock_error_ns: int = 0,
    readers: Readers | None = None,
    notify: Callable[[str], None] = lambda line: None,
    tell_findings: Callable[[Diagnosis], None] = lambda diagnosis: None,
    cost: str = "",
    control: PlainStep = NO_STEP,
    drilled: Mapping[str, str] | None = None,
) -> Table:
    """Read the reports, by the `readers` that opened them, write the page, return its summary.

    `known`: facts of the run by name. `cost`: of tracing, of runs.baseline's describe_cost();
    `control`: as of judge_run(). `tell_findings` gets the diagnosis.
    `drilled`: what ncu said of kernels, by name. Names and facts are redacted by `redactor`. What
    cannot be read is named by `notify` and on the page; if nothing can, its error is raised.
    """
    readers, redactor = readers or Readers(), redactor or Redactor()
    first, others = page_analyses(len(sources))
    replay_first = partial(_replay_first, first, clock_error_ns=clock_error_ns, control=control)
    answers, ahead = readers.read_again(sources, first, others, notify, replay_first)
    analyses = [*first, *others]
    read = [_pick_parts(analyses, answer) for answer in answers if isinstance(answer, Partials)]
    parts = [join_facts(part.findings, part.rules, part.graphs, part.states) for part in read]
    replay, judged = _start_judging(parts, clock_error_ns, control, ahead)
    tables, refused = _make_tables(sources, analyses, answers, notify)
    windows = next((source.scope.edges for source in sources if source.scope.edges), ())
    data = _make_page_data(read, tables, clock_error_ns, replay, redactor, windows)
    diagnosis = judged().with_cost(cost)
    tell_findings(diagnosis)
    facts = {**(known or {}), **data.facts}
    data = replace(data, title=title, facts=facts, refusals=refused, drilled=drilled or {})
    html = render_page(data, diagnosis).encode(errors="replace")  # a file's name may be no UTF-8
    write_atomically(output, html)
    return _summarise_page(output, data, len(diagnosis.findings), len(html))


def _replay_first(
    analyses: Sequence[Analysis],
    answers: Sequence[Answer],
    clock_error_ns: int,
    control: PlainStep,
) -> ReplayAhead:
    """The replay of the reports, of which workers have read what it needs."""
    read = [_name_parts(analyses, answer) for answer in answers if isinstance(answer, Partials)]
    states = list(chain(*(parts["states"] for parts in read)))
    graphs = list(chain(*(parts["graphs"] for parts in read)))
    replay = prepare_replay(graphs, match_ranks(states, clock_error_ns), clock_error_ns)
    ahead = replay_ahead(replay, len(read), control, count_cores())
    # The findings and the tables read these splits, which are computed once for each state.
    for error_ns in {clock_error_ns, 0}:
        split_exposed(states, error_ns)
    return ahead


def _name_parts(analyses: Sequence[Analysis], answer: Partials) -> dict[str, Any]:
    return {analysis.name: part for analysis, part in zip(analyses, answer, strict=True)}


def _pick_parts(analyses: Sequence[Analysis], answer: Partials) -> _Parts:
    by_name = _name_parts(analyses, answer)
    return _Parts(*(by_name[name] for name in _Parts._fields))


def _start_judging(
    parts: Sequence[DiagnosedReport],
    clock_error_ns: int,
    control: PlainStep,
    ahead: ReplayAhead | None,
) -> tuple[Replay | str, Judge]:
    """The replay, and what returns the diagnosis: where workers have read, a copy judges beside
    the other parts of the page, which take as long.
    """
    processes = count_cores() if ahead else 1
    replay = choose_replay(parts, clock_error_ns, processes, ahead) if parts else ""
    judge = partial(judge_run, parts, clock_error_ns, control, replay)
    return replay, ForkedCopy(judge).result if processes > 1 and parts and CAN_FORK else judge


def _make_page_data(
    read: Sequence[_Parts],
    tables: Mapping[str, Table],
    clock_error_ns: int,
    replay: Replay | str,
    redactor: Redactor,
    windows: Edges,
) -> PageData:
    """The data of the page that come from the reports."""
    ranks = join_pictures([part.pictures for part in read])
    states = [rank for part in read for rank in part.states]
    waits = waits_of(states, clock_error_ns, WAITS // max(1, len(ranks)))
    paths = draw_path(list_stretches_of(replay))
    return PageData(
        title="",
        # first: a thread packs it beside the other parts
        timeline=timeline_data(ranks, waits, partial(redact_name, redactor), windows, paths),
        tables={name: redact_table(table, redactor) for name, table in tables.items()},
        ranks=ranks,
        host=[rank for part in read for rank in part.host],
        counters=[part.counters for part in read],
        modules=[kernel for part in read for kernel in part.modules],
        sizes=redact_table(comm_sizes(states, clock_error_ns), redactor),
        paths=paths,
        redactor=redactor,
        facts=run_facts([part.facts for part in read], len(ranks), clock_error_ns),
    )


def _make_tables(
    sources: Sequence[ReportSource],
    analyses: Sequence[Analysis],
    answers: Sequence[Answer],
    notify: Notify,
) -> tuple[Mapping[str, Table], list[GpuProfileError]]:
    """The tables of the reports that were read, and the errors of the others."""
    analysed = merge_answers(sources, analyses, answers)
    refused = [error for _, error in analysed.refusals]
    tell_omissions(refused, len(sources), len(sources) - len(refused), notify)
    return analysed.tables, refused


def page_analyses(reports: int) -> tuple[list[Analysis], list[Analysis]]:
    """What is read of each report: first what the replay needs, with the tables that are made of
    it; then the other parts of the page, and the other tables.
    """
    budget = budget_of(reports, EVENTS, BINS)
    parts: dict[str, Callable[[Database, Scope], object]] = {
        "states": states_of,
        "graphs": collect_graphs,
        "facts": report_facts,
        "findings": collect_lean_facts,
        "rules": collect_by_kind,
        "pictures": partial(all_pictures, budget=budget),
        "host": flame_part,
        "counters": counters_part,
        "modules": modules_part,
    }
    of_page = {
        name: Analysis(name, collect, _no_table, takes_long=name in _BESIDE)
        for name, collect in parts.items()
    }
    of_replay = [of_page.pop(name) for name in _OF_REPLAY]
    # A state is sent once: two works would send two copies of it.
    of_states = [table for table in _TABLES if table.partial is states_of]
    others = [
        replace(table, begins_early=table.name not in _OF_GAPS)
        for table in _TABLES
        if table not in of_states
    ]
    # The first one has what the others share, so that a forked copy has it too.
    loaded = Analysis("activities", keep_activities, _no_table)
    return [loaded, *of_replay, *of_states], [*of_page.values(), *others]


def _no_table(_parts: Sequence[object]) -> Table:
    return Table("", (), ())


def _summarise_page(output: Path, data: PageData, findings: int, size: int) -> Table:
    columns = (
        *(Column("Page"), Column("Size", "bytes"), Column("Ranks")),
        *(Column("Findings"), Column("Refused Reports")),
    )
    row = (str(output), size, len(data.ranks), findings, len(data.refusals))
    return Table("html", columns, (row,))
