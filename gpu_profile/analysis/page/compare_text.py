"""The page of a comparison: the verdict, what changed, and both runs side by side."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.compare.compare import Comparison
from gpu_profile.analysis.compare.formats import list_lines
from gpu_profile.analysis.page.charts import Bar, BarPart, draw_lines, draw_stacked
from gpu_profile.analysis.page.compare_sides import ComparedSide, encode_aligned
from gpu_profile.analysis.page.document import render_document, render_header, render_navigation
from gpu_profile.analysis.page.html_text import redact_table, shorten
from gpu_profile.analysis.page.parts import (
    data_table,
    format_duration,
    read_number,
    render_figures,
    render_section,
    render_tag,
    render_text,
)
from gpu_profile.analysis.page.sections.tables import STATES
from gpu_profile.analysis.page.timeline_part import render_drawing
from gpu_profile.analysis.scrub.redactor import Redactor

_LINKS = (
    ("verdict", "Verdict"),
    ("breakdown", "Breakdown"),
    ("steps", "Steps"),
    ("timeline", "Timeline"),
    ("kernels", "Kernels"),
)
_VERDICTS = {"regression": "warn", "improvement": "good", "pass": "good", "undecided": "note"}


def render_comparison(
    comparison: Comparison, sides: Sequence[ComparedSide], names: Sequence[str]
) -> str:
    """The HTML. `names`: which runs are compared, as the user named them: base, then new."""
    redactor = Redactor()
    title = "Comparison"
    parts = (
        _render_verdict(comparison, redactor),
        _render_breakdown(sides),
        _render_steps(sides),
        _render_timeline(sides, redactor),
        render_section(
            "kernels",
            "Kernels that changed",
            "For one step and rank, over the steps that all ranks recorded, without the warm-up.",
            data_table(redact_table(comparison.kernels, redactor), "Kernels that changed"),
        ),
    )
    about = redactor.text(f"base {names[0]}, new {names[1]}", everywhere=True)
    body = (
        render_header(title, about),
        render_navigation("".join(parts), _LINKS),
        "<main id=main>",
        *parts,
        "</main>",
    )
    return render_document(title, "".join(body))


def _render_verdict(comparison: Comparison, redactor: Redactor) -> str:
    change = comparison.difference
    figures = render_figures(
        (
            ("Base", format_duration(comparison.base.median), f"median, {comparison.metric}"),
            ("New", format_duration(comparison.new.median), f"median, {comparison.metric}"),
            ("Change", f"{100 * change.change:+.2f} %" if change else "unknown", "of the median"),
            ("Verdict", comparison.verdict, f"threshold {100 * comparison.fail_over:g} %"),
        )
    )
    lines = [redactor.text(shorten(line)) for line in list_lines(comparison)]
    items = render_tag("ul", *(render_tag("li", render_text(line)) for line in lines[1:]))
    head = render_tag("p", render_text(lines[0]), class_=_VERDICTS[comparison.verdict])
    return render_section("verdict", "Verdict", "", figures, head, items)


def _render_breakdown(sides: Sequence[ComparedSide]) -> str:
    """A bar a rank and side, as long as its median step; nothing without steps."""
    bars = [(key, bar) for side in sides for key, bar in _list_bars(side)]
    bars.sort(key=lambda pair: pair[0])
    if not bars:
        return ""
    longest = max(bar.total for _, bar in bars)
    intro = "As long as the rank's median step, cut as all of its steady steps are."
    chart = draw_stacked([bar for _, bar in bars], longest)
    return render_section("breakdown", "Where a step's time goes", intro, chart)


def _list_bars(side: ComparedSide) -> list[tuple[int, Bar]]:
    table, steps = side.tables["temporal_breakdown"], side.tables["step_sum"]
    if not table.rows or not steps.rows:
        return []
    medians = dict(zip(steps.column("Rank"), steps.column("Med"), strict=True))
    columns = {name: table.column(name) for name in STATES}
    bars = []
    for row, rank in enumerate(table.column("Rank")):
        median, span = read_number(medians.get(rank)), read_number(table.column("Span")[row])
        if not median or not span:
            continue
        parts = tuple(
            BarPart(*STATES[name], median * read_number(columns[name][row]) / span)
            for name in STATES
        )
        name = side.name if len(table.rows) == 1 else f"{side.name} {rank}"
        bars.append((int(read_number(rank)), Bar(name, parts, format_duration(median))))
    return bars


def _render_steps(sides: Sequence[ComparedSide]) -> str:
    """A line a side: the slowest rank of each step."""
    lines = [(side.name, series) for side in sides if len(series := _find_slowest(side)) > 1]
    if not lines:
        return ""
    dropped = max(
        (
            int(read_number(cell))
            for side in sides
            for cell in side.tables["step_sum"].column("Dropped")
        ),
        default=0,
    )
    chart = draw_lines([(f"{name}, slowest rank", values) for name, values in lines], dropped)
    return render_section("steps", "Steps", "Step N of one run beside step N of the other.", chart)


def _find_slowest(side: ComparedSide) -> np.ndarray:
    times = [(rank.steps_end - rank.steps_start) / 1e6 for rank in side.ranks]
    count = min(map(len, times), default=0)
    return np.stack([series[:count] for series in times]).max(axis=0) if count else np.empty(0)


def _render_timeline(sides: Sequence[ComparedSide], redactor: Redactor) -> str:
    if not all(side.ranks for side in sides):
        return ""
    data = encode_aligned(sides, lambda name: redactor.text(shorten(name)))
    ranks = [rank for side in sides for rank in side.ranks]
    intro = (
        "Both runs from their first step on, rank by rank, with the second one at time 0. Go to a "
        "step to begin it at one time in both; All shows the start-up, too."
    )
    return render_section("timeline", "Timeline", intro, render_drawing(ranks, data, {}))
