"""The page's sections, rendered from tables."""

from collections.abc import Mapping, Sequence

from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.finding import Finding, Place, format_ranks
from gpu_profile.analysis.findings.overview import Overview
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.page.charts import Bar, BarPart, draw_ranking, draw_stacked, step_lines
from gpu_profile.analysis.page.events import RankPicture
from gpu_profile.analysis.page.parts import (
    data_table,
    format_duration,
    format_percent,
    format_times,
    name_bar,
    read_number,
    render_figures,
    render_folded,
    render_section,
    render_tag,
    render_text,
)
from gpu_profile.table import Table

# Column of temporal_breakdown: (CSS class, what a bar's part is called, the short form). The short
# form is how the other one begins: who reads the bar finds it in the legend.
STATES = {
    "Compute": ("compute", "Compute", "compute"),
    "Exposed Comm Wait": ("wait", "Wait for another rank, in communication", "wait"),
    "Exposed Comm Transfer": ("transfer", "Transfer of data, in communication", "transfer"),
    "Exposed Comm Unsplit": ("unsplit", "Communication, not split", "communication"),
    "Exposed Memory": ("memory", "Copies and memsets", "copies"),
    "Idle Launch": ("launch", "Idle, launch: the host launches too slowly", "idle, launch"),
    "Idle Stall": ("stall", "Idle, stall: the host launches nothing", "idle, stall"),
    "Idle Sync": ("sync", "Idle, sync: after a blocking call", "idle, sync"),
    "Idle Copy": ("copy", "Idle, copy: after a blocking copy", "idle, copy"),
    "Idle Queued": ("queued", "Idle, queued: work in the queue waits", "idle, queued"),
    "Idle Profiler": ("profiler", "Idle, profiler: held up by it", "idle, profiler"),
    "No Request": ("unasked", "No request was there", "no request"),
}


def render_overview(tables: Mapping[str, Table], facts_of_run: Overview) -> str:
    """The most important figures. Their shares do not include start-up."""
    breakdown, is_alone = tables["temporal_breakdown"], facts_of_run.is_alone
    if not breakdown.rows:
        return ""
    spans = sum(map(read_number, breakdown.column("Span"))) or 1.0

    def share(prefix: str) -> str:
        names = [name for name in STATES if name.startswith(prefix)]
        time = sum(sum(map(read_number, breakdown.column(name))) for name in names)
        return format_percent(time / spans)

    start_up = facts_of_run.start_up
    starting = [("Start-up", f"{start_up.seconds:.1f} s", "not counted beside")] if start_up else []
    waiting = "Wait for GPUs" if is_alone else "Wait for ranks"
    communicating = []
    if tables["comm_sum"].rows:
        communicating = [
            (waiting, share("Exposed Comm Wait"), "exposed communication"),
            ("Transfer", share("Exposed Comm Transfer"), "exposed communication"),
        ]
    return render_figures(
        (
            *starting,
            ("Step", *_describe_step(tables["step_sum"], is_alone)),
            ("Compute", share("Compute"), "of the time" if is_alone else "of the ranks' time"),
            *communicating,
            ("Idle", share("Idle"), "no GPU work at all"),
        )
    )


def _describe_step(steps: Table, is_alone: bool) -> tuple[str, str]:
    """The step's time and what it is: ("15.4 ms", "median of the slowest rank")."""
    middles = [read_number(cell) for cell in steps.column("Med") if cell is not None]
    if not middles:
        return "none", "found"
    return format_duration(max(middles)), "median" if is_alone else "median of the slowest rank"


def render_findings(diagnosis: Diagnosis, facts_of_run: Sequence[str]) -> str:
    """Start-up and step times, then the findings in their order."""
    diagnosis = diagnosis.without_lone_rank()
    everyone = "" if diagnosis.overview.is_alone else "all ranks"
    cards = [
        _render_finding(place, finding, everyone)
        for place, finding in enumerate(diagnosis.findings, 1)
    ]
    body = render_tag("ol", *cards, class_="findings") if cards else ""
    if not cards and not any(note.startswith("anything") for note in diagnosis.unjudged):
        body = render_tag("p", render_text("Nothing found that is worth the time."), class_="good")
    notes = [
        render_tag("li", render_text(f"Could not judge {note}.")) for note in diagnosis.unjudged
    ]
    more = render_tag("ul", *notes, class_="note") if notes else ""
    lines = "".join(render_tag("p", render_text(line)) for line in facts_of_run)
    intro = (
        "Those of the plan first, in its order, then by the time that could be won; each with what "
        "it was judged by."
    )
    plan = _render_plan(diagnosis.list_plan_lines())
    return render_section("findings", "Findings", intro, lines, plan, body, more)


def _render_plan(lines: Sequence[str]) -> str:
    """What to do first and after that, or why that is not known."""
    if not lines:
        return ""
    head, *items = lines
    if not items:
        return render_tag("p", render_text(head), class_="note")
    rows = [render_tag("li", render_text(item.strip())) for item in items]
    about = "Each line names a cause to remove, and the step before and after that."
    return render_tag(
        "div",
        render_tag("h3", render_text(head)),
        render_tag("ul", *rows),
        render_tag("p", render_text(about), class_="note"),
        class_="plan",
    )


def _render_finding(place: int, finding: Finding, everyone: str) -> str:
    title = RULES[finding.kind].title
    ranks = format_ranks(finding.ranks) if finding.ranks else everyone
    gain = finding.describe_cost()
    head = render_tag(
        "h3",
        render_tag("span", render_text(f"{place}. {title}"), class_="kind"),
        render_tag(
            "span", render_text(", ".join(filter(None, (ranks, finding.cause)))), class_="who"
        ),
        render_tag("span", render_text(gain), class_="gain"),
    )
    lead = render_place(finding.place) if finding.place else ""
    evidence = render_tag("ul", *(render_tag("li", render_text(line)) for line in finding.evidence))
    advice = render_tag("p", render_tag("b", "Try: "), render_text(finding.advice), class_="advice")
    return render_tag("li", head, evidence, advice, lead)


def render_place(place: Place) -> str:
    """A link to a place in the timeline; places.js reads it."""
    start, end = place.start / 1e6, place.end / 1e6
    where = f"#at&rank={place.rank}&from={start:.6f}&to={end:.6f}"
    link = render_tag("a", "Show it in the timeline", href=where)
    return render_tag("p", link, class_="lead")


def render_breakdown(table: Table, is_alone: bool = False) -> str:
    """One bar for each rank, which covers its whole span."""
    if not table.rows:
        return ""
    columns = {name: table.column(name) for name in STATES}
    bars = [
        Bar(
            name_bar(rank, is_alone),
            tuple(BarPart(*STATES[name], read_number(columns[name][row])) for name in STATES),
            format_duration(read_number(span)),
        )
        for row, (rank, span) in enumerate(
            zip(table.column("Rank"), table.column("Span"), strict=True)
        )
    ]
    intro = (
        "Every moment of the steady steps is counted once, without start-up; where none was "
        "recorded, from the first GPU operation to the last. "
        "The parts of a bar are 100 % of the time at its end."
    )
    numbers = render_folded("The same as a table", data_table(table, "Time, in ns"))
    return render_section("breakdown", "Where the time went", intro, draw_stacked(bars), numbers)


def render_steps(table: Table, ranks: Sequence[RankPicture]) -> str:
    """Step times as a chart and a table."""
    dropped = max((int(read_number(cell)) for cell in table.column("Dropped")), default=0)
    source = next((str(cell) for cell in table.column("Found By") if cell), "")
    if not any(len(rank.steps_start) for rank in ranks):
        return ""
    intro = "From a step's first GPU operation to the next step's."
    if source:
        intro += f" Steps found by: {source}."
    chart = step_lines(ranks, dropped)
    if not table.rows:
        return render_section(
            "steps", "Steps", "By the host's clock, as NVTX ranges mark them.", chart
        )
    return render_section("steps", "Steps", intro, chart, data_table(table, "Step times by rank"))


def render_kernels(table: Table, drilled: Mapping[str, str], is_alone: bool = False) -> str:
    """The twelve kernels that took most time, with what ncu said of those that `drill` measured."""
    if not table.rows:
        return ""
    rows = [
        (
            str(name),
            read_number(total),
            f"{format_duration(read_number(total))}, {read_number(share):.1f} %, "
            f"{format_times(read_number(count))}"
            + (f". {drilled[str(name)]}" if drilled.get(str(name)) else ""),
        )
        for name, total, share, count in zip(
            table.column("Name")[:12],
            table.column("Total Time")[:12],
            table.column("Time")[:12],
            table.column("Instances")[:12],
            strict=True,
        )
    ]
    intro = "Per cent of all kernel time, as nsys stats counts it."
    if not is_alone:
        intro = f"Summed over all ranks. {intro}"
    return render_section(
        "kernels", "Top kernels", intro, draw_ranking(rows, "Kernels by total time")
    )


def table_list(tables: Sequence[tuple[Table, str]]) -> str:
    """The tables in folded elements, with their names."""
    parts = (
        render_folded(
            f"{table.title} ({len(table.rows):,} rows): {what}", data_table(table, table.title)
        )
        for table, what in tables
        if table.rows
    )
    intro = "Columns as nsys stats names them. Headings sort, the field above a table searches."
    return render_section("tables", "Tables", intro, *parts)
