"""Write a run as one HTML file that needs no server, no network and no other file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from gpu_profile.analysis.activity.load.kept_columns import keep_activities
from gpu_profile.analysis.activity.states import RankStates
from gpu_profile.analysis.findings.diagnose import judge_rules, judge_run
from gpu_profile.analysis.findings.diagnosed_report import (
    DiagnosedReport,
    collect_lean_facts,
    join_facts,
    replay_parts,
)
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.host.samples import HostSamples
from gpu_profile.analysis.modules.module_kernels import ModuleKernel
from gpu_profile.analysis.multi_report.forked_copy import CAN_FORK, ForkedCopy
from gpu_profile.analysis.multi_report.omissions import tell_omissions
from gpu_profile.analysis.multi_report.parallel import count_cores, merge_answers
from gpu_profile.analysis.multi_report.readers import Readers
from gpu_profile.analysis.multi_report.work import Answer, Notify, Partials, ReportSource
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
from gpu_profile.analysis.replay.run_replay import Replay
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
_BESIDE = ("graphs", "findings")
"""Collected by copies of a report's worker: together they take longer than all tables."""


class _Parts(NamedTuple):
    """What is read of a report for the page alone, in the order of reading, before the tables."""

    states: list[RankStates]
    graphs: tuple[RankGraph | NoGraph, ...]
    findings: DiagnosedReport
    pictures: list[RankPicture]
    facts: PageReport
    host: list[HostSamples]
    counters: GpuCounters
    modules: list[ModuleKernel]


_PAGE_PARTS = len(_Parts._fields)


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
    control: tuple[float, int, float] = (0.0, 0, 0.0),
    drilled: Mapping[str, str] | None = None,
) -> Table:
    """Read the reports, by the `readers` that opened them, write the page, return its summary.

    `known`: facts of the run by name. `cost`: of tracing, of runs.baseline's describe_cost();
    `control`: control_ms to control_ratio of judge_run(). `tell_findings` gets the diagnosis.
    `drilled`: what ncu said of kernels, by name. Names and facts are redacted by `redactor`. What
    cannot be read is named by `notify` and on the page; if nothing can, its error is raised.
    """
    readers, redactor = readers or Readers(), redactor or Redactor()
    answers = readers.read_again(sources, page_analyses(len(sources)), notify)
    read = [_Parts(*answer[:_PAGE_PARTS]) for answer in answers if isinstance(answer, list)]
    parts = [join_facts(part.findings, part.graphs, part.states) for part in read]
    processes = count_cores() if readers.has_workers else 1
    replay, judged = _start_judging(parts, clock_error_ns, control, processes)
    tables, refused = _tables(sources, answers, notify)
    windows = next((source.scope.edges for source in sources if source.scope.edges), ())
    data = _page_data(read, tables, clock_error_ns, replay, redactor, windows)
    diagnosis = judged().with_cost(cost)
    tell_findings(diagnosis)
    facts = {**(known or {}), **data.facts}
    data = replace(data, title=title, facts=facts, refused=refused, drilled=drilled or {})
    html = render_page(data, diagnosis).encode(errors="replace")  # a file's name may be no UTF-8
    write_atomically(output, html)
    return _summarise_page(output, data, len(diagnosis.findings), len(html))


def _start_judging(
    parts: Sequence[DiagnosedReport],
    clock_error_ns: int,
    control: tuple[float, int, float],
    processes: int,
) -> tuple[Replay | str, Judge]:
    """The replay, and what returns the diagnosis. With several processes the rules are judged
    beside the replay, and the rest beside the other parts of the page, which take as long.
    """
    if not parts or processes < 2 or not CAN_FORK:
        replay = replay_parts(parts, clock_error_ns) if parts else ""
        return replay, partial(judge_run, parts, clock_error_ns, *control, replay)
    rules = ForkedCopy(partial(judge_rules, parts, clock_error_ns))
    replay = replay_parts(parts, clock_error_ns, processes)
    judge = partial(judge_run, parts, clock_error_ns, *control, replay, rules.result())
    return replay, ForkedCopy(judge).result


def _page_data(
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


def _tables(
    sources: Sequence[ReportSource], answers: Sequence[Answer], notify: Notify
) -> tuple[Mapping[str, Table], list[GpuProfileError]]:
    """The tables of the reports that were read, and the errors of the others."""
    tabled = list(dict.fromkeys((*SHOWN, *(name for name, _ in FOLDED))))
    parts = [Partials(a[_PAGE_PARTS:]) if isinstance(a, Partials) else a for a in answers]
    analysed = merge_answers(sources, tabled, parts)
    refused = [error for _, error in analysed.refused]
    tell_omissions(refused, len(sources), len(sources) - len(refused), notify)
    return analysed.tables, refused


def page_analyses(reports: int) -> list[Analysis]:
    """What is read of each report: the timeline, the parts of findings and facts, the tables."""
    budget = budget_of(reports, EVENTS, BINS)
    parts: dict[str, Callable[[Database, Scope], object]] = {
        # The first one has what the others share, so that a forked copy has it too.
        "states": keep_activities,
        "graphs": collect_graphs,
        "findings": collect_lean_facts,
        "pictures": partial(all_pictures, budget=budget),
        "facts": report_facts,
        "host": flame_part,
        "counters": counters_part,
        "modules": modules_part,
    }
    of_page = [
        Analysis(name, parts[name], _no_table, takes_long=name in _BESIDE)
        for name in _Parts._fields
    ]
    return [*of_page, *dict.fromkeys((*SHOWN, *(name for name, _ in FOLDED)))]


def _no_table(_parts: Sequence[object]) -> Table:
    return Table("", (), ())


def _summarise_page(output: Path, data: PageData, findings: int, size: int) -> Table:
    columns = (
        *(Column("Page"), Column("Size", "bytes"), Column("Ranks")),
        *(Column("Findings"), Column("Refused Reports")),
    )
    row = (str(output), size, len(data.ranks), findings, len(data.refused))
    return Table("html", columns, (row,))
