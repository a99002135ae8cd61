"""Render the page's HTML: all parts in order, from the data that write_page read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.host.samples import HostSamples
from gpu_profile.analysis.modules.module_kernels import ModuleKernel
from gpu_profile.analysis.nsys_tables.cuda.cuda_api_sum import CUDA_API_SUM
from gpu_profile.analysis.nsys_tables.cuda.cuda_gpu_kern_sum import CUDA_GPU_KERN_SUM
from gpu_profile.analysis.nsys_tables.cuda.cuda_gpu_mem_size_sum import CUDA_GPU_MEM_SIZE_SUM
from gpu_profile.analysis.nsys_tables.cuda.cuda_gpu_mem_time_sum import CUDA_GPU_MEM_TIME_SUM
from gpu_profile.analysis.our_tables.capture_health import CAPTURE_HEALTH
from gpu_profile.analysis.our_tables.comm_sum import COMM_SUM
from gpu_profile.analysis.our_tables.gpu.gpu_memory_sum import GPU_MEMORY_SUM
from gpu_profile.analysis.our_tables.gpu.gpu_metric_sum import GPU_METRIC_SUM
from gpu_profile.analysis.our_tables.host.host_function_sum import HOST_FUNCTION_SUM
from gpu_profile.analysis.our_tables.host.launch_sum import LAUNCH_SUM
from gpu_profile.analysis.our_tables.idle_gaps import IDLE_GAPS
from gpu_profile.analysis.our_tables.modules.module_flops import MODULE_FLOPS
from gpu_profile.analysis.our_tables.modules.module_sum import MODULE_SUM
from gpu_profile.analysis.our_tables.range_gpu_sum import RANGE_GPU_SUM
from gpu_profile.analysis.our_tables.step_sum import STEP_SUM
from gpu_profile.analysis.our_tables.temporal_breakdown import TEMPORAL_BREAKDOWN
from gpu_profile.analysis.page.document import render_document, render_header, render_navigation
from gpu_profile.analysis.page.events import RankPicture
from gpu_profile.analysis.page.parts import render_facts, render_section, render_tag, render_text
from gpu_profile.analysis.page.path_rows import PathOf
from gpu_profile.analysis.page.sections.collectives import render_collectives
from gpu_profile.analysis.page.sections.flame import flame
from gpu_profile.analysis.page.sections.gpu_counters import (
    GpuCounters,
    gpu_counters,
    gpu_memory,
)
from gpu_profile.analysis.page.sections.host_side import HOST_TABLES
from gpu_profile.analysis.page.sections.kernel_classes import CLASSES_BY_RANK, draw_kernel_classes
from gpu_profile.analysis.page.sections.modules import model_icicle
from gpu_profile.analysis.page.sections.tables import (
    render_breakdown,
    render_findings,
    render_kernels,
    render_overview,
    render_steps,
    table_list,
)
from gpu_profile.analysis.page.timeline_data import Encoded
from gpu_profile.analysis.page.timeline_part import render_drawing
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.errors import GpuProfileError
from gpu_profile.table import Table

LONGEST_NAME = 2000
# A report can hold a million names. The page shows 200 rows of a table, so of longer tables only
# the first 1,000 are made readable, and the others keep their number.
LONG_TABLE, READABLE_ROWS = 20_000, 1_000

SHOWN = (
    *(TEMPORAL_BREAKDOWN, STEP_SUM, COMM_SUM, CUDA_GPU_KERN_SUM, CLASSES_BY_RANK),
    *(GPU_METRIC_SUM, GPU_MEMORY_SUM),
)
FOLDED = (
    (CUDA_GPU_KERN_SUM, "GPU time by kernel"),
    (MODULE_SUM, "GPU time by module of the model"),
    (MODULE_FLOPS, "FLOPs, TFLOP/s and MFU by module"),
    (RANGE_GPU_SUM, "GPU work by NVTX range, autograd's threads included"),
    (CUDA_API_SUM, "CUDA API calls"),
    (LAUNCH_SUM, "from the host's launch to the GPU's start"),
    (HOST_FUNCTION_SUM, "the host's functions by samples"),
    (IDLE_GAPS, "where the GPU idled, and why"),
    (CUDA_GPU_MEM_TIME_SUM, "copies and memsets by time"),
    (CUDA_GPU_MEM_SIZE_SUM, "copies and memsets by size"),
    *HOST_TABLES,
    (CAPTURE_HEALTH, "how complete the recording is"),
)
_LINKS = (
    ("findings", "Findings"),
    ("classes", "Kinds of work"),
    ("model", "Model"),
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


@dataclass(frozen=True)
class PageData:
    """The data that the page shows beside the diagnosis. `tables` and `sizes` are redacted. `facts`
    are given by the caller, e.g. the run's id.
    """

    title: str
    timeline: Encoded
    tables: Mapping[str, Table]
    ranks: Sequence[RankPicture]
    host: Sequence[HostSamples]
    modules: Sequence[ModuleKernel]
    counters: Sequence[GpuCounters]
    paths: PathOf
    sizes: Table
    facts: Mapping[str, str]
    redactor: Redactor
    refusals: Sequence[GpuProfileError] = ()
    drilled: Mapping[str, str] = field(default_factory=dict)
    """What Nsight Compute said of kernels, by their names."""


def render_page(data: PageData, diagnosis: Diagnosis) -> str:
    """The HTML of the page; equal data give equal bytes."""
    clean_text = partial(data.redactor.text, everywhere=True)
    title = render_text(clean_text(data.title))
    parts = _render_parts(data, diagnosis, clean_text)
    body = (
        render_header(title, _describe_ranks(data)),
        render_navigation("".join(parts), _LINKS),
        "<main id=main>",
        *parts,
        "</main>",
    )
    return render_document(title, "".join(body))


def _render_parts(
    data: PageData, diagnosis: Diagnosis, clean_text: Callable[[str], str]
) -> tuple[str, ...]:
    """The parts below the navigation, from the findings to the facts of the run."""
    tables, overview = data.tables, diagnosis.overview
    is_alone = overview.is_alone
    refused = [clean_text(str(error)) for error in data.refusals]
    diagnosis = diagnosis.with_texts(partial(redact_name, data.redactor))
    return (
        *(render_tag("p", render_text(line), class_="warn") for line in refused),
        render_overview(tables, overview),
        render_findings(diagnosis, [*map(clean_text, diagnosis.overview.to_lines())]),
        draw_kernel_classes(tables["kernel_class_sum"], is_alone),
        model_icicle(data.modules, data.redactor, is_alone=is_alone),
        render_breakdown(tables["temporal_breakdown"], is_alone),
        render_steps(tables["step_sum"], data.ranks),
        flame(data.host, data.redactor, is_alone=is_alone),
        gpu_counters(data.counters, tables["gpu_metric_sum"]),
        gpu_memory(data.counters, tables["gpu_memory_sum"], is_alone),
        _render_timeline(data),
        render_kernels(tables["cuda_gpu_kern_sum"], _redact_remarks(data), is_alone),
        render_collectives(tables["comm_sum"], data.sizes, is_alone),
        table_list([(tables[analysis.name], what) for analysis, what in FOLDED]),
        render_section(
            "run",
            "Run",
            "",
            render_facts({key: clean_text(fact) for key, fact in data.facts.items()}),
        ),
    )


def _describe_ranks(data: PageData) -> str:
    gpus = data.facts.get("GPUs seen by a report", "")
    ranks = "1 rank" if len(data.ranks) == 1 else f"{len(data.ranks)} ranks"
    return f"{ranks}, {gpus}" if gpus else ranks


def redact_name(redactor: Redactor, name: str) -> str:
    return redactor.text(shorten(name))


def _render_timeline(data: PageData) -> str:
    if not data.ranks:
        return render_section(
            "timeline", "Timeline", "Neither GPU work nor NVTX ranges in these reports."
        )

    intro = (
        "Drag to move, double-click or Ctrl + wheel to zoom, or use the keys: arrows, +, -, 0. "
        "A bin's height is the part of it that was busy; thin lines are the steps."
    )
    drawing = render_drawing(data.ranks, data.timeline, data.paths)
    return render_section("timeline", "Timeline", intro, drawing)


def _redact_remarks(data: PageData) -> Mapping[str, str]:
    clean_text = data.redactor.text
    return {clean_text(shorten(name)): clean_text(text) for name, text in data.drilled.items()}


def redact_table(table: Table, redactor: Redactor) -> Table:
    """The table with all texts redacted: a job controls the names of its kernels and ranges."""
    clean_texts: dict[str, str] = {}

    def text_of(cell: str) -> str:
        if cell not in clean_texts:
            clean_texts[cell] = redactor.text(shorten(cell))
        return clean_texts[cell]

    shown = table.rows[:READABLE_ROWS] if len(table.rows) > LONG_TABLE else table.rows
    rows = [tuple(text_of(c) if isinstance(c, str) else c for c in row) for row in shown]
    # The page tells how many rows there are: those that it never prints are copies of the last one.
    return table.where([*rows, *rows[-1:] * (len(table.rows) - len(rows))])


def shorten(name: str) -> str:
    """Cut a name at 2,000 characters, because the search for secrets takes quadratic time."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"
