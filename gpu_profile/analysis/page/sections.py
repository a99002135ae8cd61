"""The page's parts, each from the tables that it shows."""

from collections.abc import Mapping, Sequence

from gpu_profile.analysis.findings.diagnose import Diagnosis
from gpu_profile.analysis.findings.finding import Finding, listed
from gpu_profile.analysis.findings.overview import Overview
from gpu_profile.analysis.page.charts import Bar, Part, ranking, stacked, step_lines
from gpu_profile.analysis.page.events import RankPicture
from gpu_profile.analysis.page.parts import (
    data_table,
    duration,
    figures,
    folded,
    percent,
    section,
    tag,
    text,
)
from gpu_profile.table import Cell, Table

# Column of temporal_breakdown: (CSS class, what a bar's part is called, the short form).
STATES = {
    "Compute": ("compute", "Compute", "compute"),
    "Exposed Comm Wait": ("wait", "Communication: waiting for another rank", "wait"),
    "Exposed Comm Transfer": ("transfer", "Communication: moving data", "transfer"),
    "Exposed Comm Unsplit": ("unsplit", "Communication: not split", "comm"),
    "Exposed Memory": ("memory", "Copies and memsets", "copies"),
    "Idle Launch": ("launch", "Idle: the host launches too slowly", "idle: launch"),
    "Idle Stall": ("stall", "Idle: the host launches nothing", "idle: stall"),
    "Idle Sync": ("sync", "Idle: after a blocking call", "idle: sync"),
    "Idle Copy": ("copy", "Idle: after a blocking copy", "idle: copy"),
    "Idle Queued": ("queued", "Idle: queued work waits", "idle: queued"),
    "Idle Profiler": ("profiler", "Idle: held up by the profiler", "profiler"),
}
_TITLES = {
    "straggler": "Straggler",
    "pipeline": "Uneven pipeline",
    "experts": "Uneven experts",
    "host_bound": "Host-bound",
    "exposed_communication": "Exposed communication",
    "idle": "Idle GPU",
    "pageable_copy": "Pageable copies",
    "synchronization": "Needless synchronisation",
    "tiny_kernels": "Tiny kernels",
    "low_bandwidth": "Low bandwidth",
    "unused_gpu": "Unused GPU",
    "capture": "Capture",
}


def number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0


def overview(tables: Mapping[str, Table], facts_of_run: Overview) -> str:
    """The figures to see first; start-up is in none of the shares."""
    breakdown, steps = tables["temporal_breakdown"], tables["step_sum"]
    if not breakdown.rows:
        return ""
    spans = sum(map(number, breakdown.column("Span"))) or 1.0

    def share(prefix: str) -> float:
        names = [name for name in STATES if name.startswith(prefix)]
        return sum(sum(map(number, breakdown.column(name))) for name in names) / spans

    middles = [number(cell) for cell in steps.column("Med") if cell is not None]
    step = (duration(max(middles)), "median of the slowest rank") if middles else ("none", "found")
    start_up = facts_of_run.start_up
    starting = [("Start-up", f"{start_up.seconds:.1f} s", "not counted beside")] if start_up else []
    return figures(
        (
            *starting,
            ("Step", *step),
            ("Compute", percent(share("Compute")), "of the ranks' time"),
            ("Waiting for ranks", percent(share("Exposed Comm Wait")), "exposed communication"),
            ("Moving data", percent(share("Exposed Comm Transfer")), "exposed communication"),
            ("Idle", percent(share("Idle")), "no GPU work at all"),
        )
    )


def findings(diagnosis: Diagnosis, facts_of_run: Sequence[str]) -> str:
    """What start-up and a step take, and what to do about it, most winnable time first."""
    cards = [_finding(place, found) for place, found in enumerate(diagnosis.findings, 1)]
    body = tag("ol", *cards, class_="findings") if cards else ""
    if not cards and not any(note.startswith("anything") for note in diagnosis.unjudged):
        body = tag("p", text("Nothing found that is worth the time."), class_="good")
    notes = [tag("li", text(f"Could not judge {note}.")) for note in diagnosis.unjudged]
    more = tag("ul", *notes, class_="note") if notes else ""
    lines = "".join(tag("p", text(line)) for line in facts_of_run)
    intro = "Ordered by the time that could be won; each with what it was judged by."
    return section("findings", "Findings", intro, lines, body, more)


def _finding(place: int, found: Finding) -> str:
    title = _TITLES.get(found.kind, found.kind)
    ranks = listed(found.ranks) if found.ranks else "all ranks"
    gain = f"up to {found.ms_per_step:.2f} ms {found.unit}" if found.ms_per_step else ""
    head = tag(
        "h3",
        tag("span", text(f"{place}. {title}"), class_="kind"),
        tag("span", text(", ".join(filter(None, (ranks, found.cause)))), class_="who"),
        tag("span", text(gain), class_="gain"),
    )
    evidence = tag("ul", *(tag("li", text(line)) for line in found.evidence))
    advice = tag("p", tag("b", "Try: "), text(found.advice), class_="advice")
    return tag("li", head, evidence, advice)


def breakdown(table: Table) -> str:
    """One bar a rank, all of its span."""
    if not table.rows:
        return ""
    columns = {name: table.column(name) for name in STATES}
    bars = [
        Bar(
            f"rank {rank}",
            tuple(Part(*STATES[name], number(columns[name][row])) for name in STATES),
            duration(number(span)),
        )
        for row, (rank, span) in enumerate(
            zip(table.column("Rank"), table.column("Span"), strict=True)
        )
    ]
    intro = (
        "Every moment from a rank's first GPU operation to its last is counted once: "
        "the parts of a bar are 100 % of the time at its end."
    )
    numbers = folded("The same as a table", data_table(table, "Time by rank, in ns"))
    return section("breakdown", "Where the time went", intro, stacked(bars), numbers)


def steps(table: Table, ranks: Sequence[RankPicture]) -> str:
    """Step times, drawn and as figures."""
    dropped = max((int(number(cell)) for cell in table.column("Dropped")), default=0)
    source = next((str(cell) for cell in table.column("Found By") if cell), "")
    if not any(len(rank.steps_start) for rank in ranks):
        return ""
    intro = "From a step's first GPU operation to the next step's."
    if source:
        intro += f" Steps found by: {source}."
    chart = step_lines(ranks, dropped)
    if not table.rows:
        return section("steps", "Steps", "By the host's clock, as NVTX ranges mark them.", chart)
    return section("steps", "Steps", intro, chart, data_table(table, "Step times by rank"))


def kernels(table: Table) -> str:
    """The kernels that took most time."""
    if not table.rows:
        return ""
    rows = [
        (
            str(name),
            number(total),
            f"{duration(number(total))}, {number(share):.1f} %, {int(number(count)):,} times",
        )
        for name, total, share, count in zip(
            table.column("Name")[:12],
            table.column("Total Time")[:12],
            table.column("Time")[:12],
            table.column("Instances")[:12],
            strict=True,
        )
    ]
    intro = "Summed over all ranks; per cent of all kernel time, as nsys stats counts it."
    return section("kernels", "Top kernels", intro, ranking(rows, "Kernels by total time"))


def collectives(table: Table, sizes: Table) -> str:
    """Who waited for whom, and how fast the data moved."""
    if not table.rows:
        return ""
    names = list(dict.fromkeys(map(str, table.column("Collective"))))
    groups = [_collective(table, name) for name in names]
    intro = (
        "A collective's kernel waits until the last rank has arrived, and moves data only then. "
        "A rank that hardly waits is the one the others wait for."
    )
    numbers = data_table(table, "Collectives by rank")
    parts = (_groups(table), *groups, _sizes(table, sizes), numbers)
    return section("collectives", "Collectives", intro, *parts)


def _groups(table: Table) -> str:
    """What the communicators are for, and whose they are."""
    columns = (table.column(name) for name in ("Group", "Communicator", "Members"))
    found = sorted({row for row in zip(*columns, strict=True) if row[0]}, key=str)
    lines = (
        tag("li", text(f"{group} parallel: ranks {members} (communicator {number})"))
        for group, number, members in found
    )
    return tag("ul", *lines, class_="groups") if found else ""


def _sizes(table: Table, sizes: Table) -> str:
    """Bus bandwidth by message size; over all messages where single sizes are not recorded."""
    rows = [
        (f"{name}, {size} MB", number(bus), f"{bus} GB/s, {count} times, {duration(number(ns))}")
        for name, _, size, count, ns, bus in sizes.rows
    ]
    title = "Bus bandwidth by message size"
    if not rows and "Moved" in [column.name for column in table.columns]:
        wanted = ("Collective", "Rank", "Moved", "Count", "Bus BW")
        found = zip(*(table.column(name) for name in wanted), strict=True)
        rows = [
            (f"rank {rank}, {name}", number(bus), f"{bus} GB/s, mean {_mean(moved, count)} MB")
            for name, rank, moved, count, bus in found
            if bus
        ]
        title = "Bus bandwidth (the sizes of single messages are not in the reports)"
    if not rows:
        return ""
    return tag("h3", text(title)) + ranking(rows, title)


def _mean(moved: Cell, count: Cell) -> str:
    return f"{number(moved) / max(1.0, number(count)):.1f}"


def _collective(table: Table, name: str) -> str:
    rows = [row for row in range(len(table.rows)) if table.column("Collective")[row] == name]
    cells = {
        key: [number(table.column(key)[row]) for row in rows]
        for key in ("Rank", "Total", "Wait", "Transfer", "Arrived Last")
    }
    bars = []
    for index in range(len(rows)):
        wait, moved = cells["Wait"][index], cells["Transfer"][index]
        parts = (
            Part("wait", "Waiting", "wait", wait),
            Part("transfer", "Moving data", "transfer", moved),
            Part("unsplit", "Not split", "comm", cells["Total"][index] - wait - moved),
        )
        last = f"{duration(cells['Total'][index])}, last in {cells['Arrived Last'][index]:.0f} %"
        bars.append(Bar(f"rank {cells['Rank'][index]:.0f}", parts, last))
    return tag("h3", text(name), class_="long") + stacked(bars, max(cells["Total"]) or 1.0)


def table_list(tables: Sequence[tuple[Table, str]]) -> str:
    """The tables by name, folded."""
    parts = (
        folded(f"{table.title} ({len(table.rows):,} rows): {what}", data_table(table, table.title))
        for table, what in tables
        if table.rows
    )
    intro = "Columns as nsys stats names them. Headings sort, the field above a table searches."
    return section("tables", "Tables", intro, *parts)
