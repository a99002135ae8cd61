"""A run as one HTML file that needs nothing else: no server, no network, no other file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from pathlib import Path

from gpu_profile.analysis.findings import diagnose
from gpu_profile.analysis.host.samples import HostSamples
from gpu_profile.analysis.multi_report.omissions import tell_omissions
from gpu_profile.analysis.multi_report.parallel import collect_partials, merge_answers
from gpu_profile.analysis.multi_report.work import Answer, Partials, ReportSource, Tell
from gpu_profile.analysis.nsys_tables.cuda_api_sum import CALLS
from gpu_profile.analysis.nsys_tables.cuda_gpu_kern_sum import KERNELS
from gpu_profile.analysis.nsys_tables.cuda_gpu_mem_sum import SIZES, TIMES
from gpu_profile.analysis.our_tables.capture_health import CAPTURE_HEALTH
from gpu_profile.analysis.our_tables.comm_sum import COMM_SUM
from gpu_profile.analysis.our_tables.gpu_memory_sum import GPU_MEMORY_SUM
from gpu_profile.analysis.our_tables.gpu_metric_sum import GPU_METRIC_SUM
from gpu_profile.analysis.our_tables.host_function_sum import HOST_FUNCTION_SUM
from gpu_profile.analysis.our_tables.idle_gaps import IDLE_GAPS
from gpu_profile.analysis.our_tables.launch_sum import LAUNCH_SUM
from gpu_profile.analysis.our_tables.range_gpu_sum import RANGE_GPU_SUM
from gpu_profile.analysis.our_tables.step_sum import STEP_SUM
from gpu_profile.analysis.our_tables.temporal_breakdown import TEMPORAL_BREAKDOWN
from gpu_profile.analysis.page import sections
from gpu_profile.analysis.page.comm_sizes import comm_sizes
from gpu_profile.analysis.page.events import RankPicture, budget_of, join_pictures
from gpu_profile.analysis.page.flame import flame, flame_part
from gpu_profile.analysis.page.gpu_counters import (
    GpuCounters,
    counters_part,
    gpu_counters,
    gpu_memory,
)
from gpu_profile.analysis.page.host_side import HOST_TABLES, all_pictures
from gpu_profile.analysis.page.kernel_classes import CLASSES_BY_RANK, kernel_classes
from gpu_profile.analysis.page.parts import render_facts, render_section, render_tag, render_text
from gpu_profile.analysis.page.report_facts import report_facts, run_facts
from gpu_profile.analysis.page.timeline_data import WaitsOf, timeline_part, waits_of
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.errors import GpuProfileError
from gpu_profile.files import write_atomically
from gpu_profile.table import Column, Table

# What the page holds of the timeline, over all ranks: some 5 MB of its 10.
LONGEST_NAME = 2000
EVENTS, BINS, WAITS = 1_000_000, 130_000, 100_000
OWN = 5  # parts that page_analyses reads before the tables'

SHOWN = (
    *(TEMPORAL_BREAKDOWN, STEP_SUM, COMM_SUM, KERNELS, CLASSES_BY_RANK),
    *(GPU_METRIC_SUM, GPU_MEMORY_SUM),
)
FOLDED = (
    (KERNELS, "GPU time by kernel"),
    (RANGE_GPU_SUM, "GPU work by NVTX range, autograd's threads included"),
    (CALLS, "CUDA API calls"),
    (LAUNCH_SUM, "from the host's launch to the GPU's start"),
    (HOST_FUNCTION_SUM, "the host's functions by samples"),
    (IDLE_GAPS, "where the GPU idled, and why"),
    (TIMES, "copies and memsets by time"),
    (SIZES, "copies and memsets by size"),
    *HOST_TABLES,
    (CAPTURE_HEALTH, "how complete the recording is"),
)
_LINKS = (
    ("findings", "Findings"),
    ("classes", "Kinds of work"),
    ("breakdown", "Breakdown"),
    ("steps", "Steps"),
    ("host", "Host"),
    ("metrics", "GPU metrics"),
    ("memory", "Memory"),
    ("timeline", "Timeline"),
    ("kernels", "Kernels"),
    ("collectives", "Collectives"),
    ("tables", "Tables"),
    ("run", "Run"),
)
_SCRIPTS = ("tables.js", "data.js", "timeline.js", "lookup.js", "controls.js")


@dataclass(frozen=True)
class PageData:
    """Everything that the page shows. `facts` are the caller's, such as the run's id."""

    title: str
    tables: Mapping[str, Table]
    diagnosis: diagnose.Diagnosis
    ranks: Sequence[RankPicture]
    host: Sequence[HostSamples]
    counters: Sequence[GpuCounters]
    waits: WaitsOf
    sizes: Table
    facts: Mapping[str, str]
    windows: Sequence[tuple[int, int, int]] = ()
    """(number, start, end) of each in the run's clock, where a rank has several."""
    refused: Sequence[GpuProfileError] = ()
    clean: Redactor = field(default_factory=Redactor)


def write_page(
    sources: Sequence[ReportSource],
    output: Path,
    *,
    title: str = "GPU profile",
    known: Mapping[str, str] | None = None,
    clean: Redactor | None = None,
    clock_error_ns: int = 0,
    scheduler: str = "",
    workers: int = 0,
    tell: Callable[[str], None] = lambda line: None,
    tell_findings: Callable[[diagnose.Diagnosis], None] = lambda diagnosis: None,
    cost: str = "",
) -> Table:
    """Read the reports (see parallel.analyse), write the page, and say what is in it.

    `known`: facts of the run by name, to be shown. `cost`: what tracing cost (baseline.said).
    `tell_findings` gets the diagnosis, to be shown elsewhere too. Names and facts go through
    `clean`. A report that cannot be read is told and named on the page; raises its error when
    none can be read.
    """
    analyses = page_analyses(len(sources))
    answers = collect_partials(sources, analyses, scheduler=scheduler, workers=workers, tell=tell)
    tables, refused = _tables(sources, answers, tell)
    read = [answer for answer in answers if isinstance(answer, list)]
    found = diagnose.judge_run([answer[1] for answer in read], clock_error_ns).with_cost(cost)
    tell_findings(found)
    data = _page_data(read, tables, found, clock_error_ns)
    facts = {**(known or {}), **data.facts}
    windows = next((source.scope.edges for source in sources if source.scope.edges), ())
    data = replace(data, title=title, facts=facts, refused=refused, windows=windows)
    data = replace(data, clean=clean or data.clean)
    html = render_page(data).encode()
    write_atomically(output, html)
    return _summarise_page(output, data, len(html))


def _page_data(
    read: Sequence[Partials],
    tables: Mapping[str, Table],
    diagnosis: diagnose.Diagnosis,
    clock_error_ns: int,
) -> PageData:
    """What the reports themselves tell."""
    ranks = join_pictures([answer[0] for answer in read])
    states = [rank.states for answer in read for rank in answer[1].ranks]
    return PageData(
        title="",
        tables=tables,
        diagnosis=diagnosis,
        ranks=ranks,
        host=[rank for answer in read for rank in answer[3]],
        counters=[answer[4] for answer in read],
        sizes=comm_sizes(states, clock_error_ns),
        waits=waits_of(states, clock_error_ns, WAITS // max(1, len(ranks))),
        facts=run_facts([a[2] for a in read], len(ranks), clock_error_ns),
    )


def _tables(
    sources: Sequence[ReportSource], answers: Sequence[Answer], tell: Tell
) -> tuple[Mapping[str, Table], list[GpuProfileError]]:
    """The tables of the reports that were read, and why the others were not."""
    tabled = list(dict.fromkeys((*SHOWN, *(one for one, _ in FOLDED))))
    parts = [Partials(a[OWN:]) if isinstance(a, Partials) else a for a in answers]
    analysed = merge_answers(sources, tabled, parts)
    refused = [error for _, error in analysed.refused]
    tell_omissions(refused, len(sources), len(sources) - len(refused), tell)
    return analysed.tables, refused


def page_analyses(reports: int) -> list[Analysis]:
    """What is read of each report: the timeline, the findings' and facts' parts, the tables'."""
    budget = budget_of(reports, EVENTS, BINS)
    own = (
        Analysis("pictures", partial(all_pictures, budget=budget), _no_table),
        diagnose.FINDINGS,
        Analysis("facts", report_facts, _no_table),
        Analysis("host", flame_part, _no_table),
        Analysis("counters", counters_part, _no_table),
    )
    return [*own, *dict.fromkeys((*SHOWN, *(one for one, _ in FOLDED)))]


def _no_table(_parts: Sequence[object]) -> Table:
    return Table("", (), ())


def render_page(data: PageData) -> str:
    """The page's text: the same data give the same bytes."""
    clean_text = partial(data.clean.text, everywhere=True)
    tables = {name: _redact_table(table, data.clean) for name, table in data.tables.items()}
    title, refused = (
        render_text(clean_text(data.title)),
        [clean_text(str(error)) for error in data.refused],
    )
    parts = (
        *(render_tag("p", render_text(line), class_="warn") for line in refused),
        sections.render_overview(tables, data.diagnosis.overview),
        sections.render_findings(
            data.diagnosis, [*map(clean_text, data.diagnosis.overview.to_lines())]
        ),
        kernel_classes(tables["kernel_class_sum"]),
        sections.render_breakdown(tables["temporal_breakdown"]),
        sections.render_steps(tables["step_sum"], data.ranks),
        flame(data.host, data.clean),
        gpu_counters(data.counters, tables["gpu_metric_sum"]),
        gpu_memory(data.counters, tables["gpu_memory_sum"]),
        _render_timeline(data),
        sections.render_kernels(tables["cuda_gpu_kern_sum"]),
        sections.render_collectives(tables["comm_sum"], _redact_table(data.sizes, data.clean)),
        sections.table_list([(tables[one.name], what) for one, what in FOLDED]),
        render_section(
            "run",
            "Run",
            "",
            render_facts({key: clean_text(fact) for key, fact in data.facts.items()}),
        ),
    )
    body = (
        _render_header(title, data),
        _render_navigation("".join(parts)),
        "<main id=main>",
        *parts,
        "</main>",
        render_tag("footer", "Made by gpu-profile from Nsight Systems reports."),
    )
    scripts = "".join(f"<script>{_read_asset(name)}</script>\n" for name in _SCRIPTS)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{title}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{_read_asset('page.css')}</style>\n</head>\n<body>\n"
        f'<div class="page">\n{"".join(body)}\n</div>\n{scripts}</body>\n</html>\n'
    )


def _render_header(title: str, data: PageData) -> str:
    seen = data.facts.get("GPUs seen by a report", "")
    ranks = "1 rank" if len(data.ranks) == 1 else f"{len(data.ranks)} ranks"
    about = f"{ranks}, {seen}" if seen else ranks
    skip = '<a class="skip" href="#main">Skip to the content</a>'
    return skip + render_tag(
        "header",
        render_tag("h1", title),
        render_tag("p", render_text(about), class_="sub"),
        class_="top",
    )


def _render_navigation(main: str) -> str:
    links_present = [(anchor, name) for anchor, name in _LINKS if f'id="{anchor}"' in main]
    links = (
        render_tag("li", render_tag("a", render_text(name), href=f"#{anchor}"))
        for anchor, name in links_present
    )
    return render_tag("nav", render_tag("ul", *links), aria_label="Parts of this page")


def _render_timeline(data: PageData) -> str:
    if not data.ranks:
        return render_section(
            "timeline", "Timeline", "Neither GPU work nor NVTX ranges in these reports."
        )

    def clean(name: str) -> str:
        return data.clean.text(shorten(name))

    intro = (
        "Drag to move, double-click or Ctrl + wheel to zoom, or use the keys: arrows, +, -, 0. "
        "A bin's height is the part of it that was busy; thin lines are the steps."
    )
    drawing = timeline_part(data.ranks, data.waits, clean, data.windows)
    return render_section("timeline", "Timeline", intro, drawing)


def _redact_table(table: Table, clean: Redactor) -> Table:
    """Names of kernels and ranges are the job's own and may hold anything."""
    clean_texts: dict[str, str] = {}

    def text_of(cell: str) -> str:
        if cell not in clean_texts:
            clean_texts[cell] = clean.text(shorten(cell))
        return clean_texts[cell]

    return table.where(
        [tuple(text_of(c) if isinstance(c, str) else c for c in row) for row in table.rows]
    )


def shorten(name: str) -> str:
    """A name as the page shows it: the search for secrets takes time by a name's square."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def _read_asset(name: str) -> str:
    return resources.files(__name__).joinpath("assets", name).read_text(encoding="utf-8")


def _summarise_page(output: Path, data: PageData, size: int) -> Table:
    columns = (
        *(Column("Page"), Column("Size", "bytes"), Column("Ranks")),
        *(Column("Findings"), Column("Refused Reports")),
    )
    row = (str(output), size, len(data.ranks), len(data.diagnosis.findings), len(data.refused))
    return Table("html", columns, (row,))
