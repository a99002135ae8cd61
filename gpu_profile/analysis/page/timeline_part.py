"""The HTML of the timeline: its controls, its canvas, and its data."""

from collections.abc import Sequence

from gpu_profile.analysis.page.events import GPU_LANES, RankPicture
from gpu_profile.analysis.page.parts import render_legend, render_tag, render_text
from gpu_profile.analysis.page.path_rows import PathOf
from gpu_profile.analysis.page.timeline_data import MOST_NAMES, Encoded, is_on_gpus
from gpu_profile.printable import name_program


def render_drawing(ranks: Sequence[RankPicture], data: Encoded, paths: PathOf) -> str:
    """The HTML of the timeline of these ranks, whose `data` are encoded."""
    facts, block = data
    return (
        _CONTROLS
        + (render_legend(_list_keys(ranks)) if is_on_gpus(ranks) else "")
        + _DRAWING
        + _format_note(ranks, paths)
        + _render_data("application/json", "facts", facts)
        + _render_data("text/plain", "data", block.result())
    )


def _list_keys(ranks: Sequence[RankPicture]) -> list[tuple[str, str]]:
    """The colours of the rows that the run has."""
    communicates = any(rank.busy[GPU_LANES.index("communication")].any() for rank in ranks)
    absent = () if communicates else ("transfer", "wait")
    return [key for key in _LEGEND if key[0] not in absent]


def _render_data(kind: str, name: str, content: str) -> str:
    # No text of a report may end the script element: JSON reads the escape as `<`.
    escaped = content.replace("<", "\\u003c")
    return f'<script type="{kind}" id="timeline-{name}">{escaped}</script>\n'


def _format_note(ranks: Sequence[RankPicture], paths: PathOf) -> str:
    """What the timeline holds, and what of it was left out."""
    count = sum(len(rank.events.start) for rank in ranks)
    total = sum(rank.total_events for rank in ranks)
    notes = [f"{count:,} of {total:,} GPU operations are kept one by one"]
    if not total:
        notes = ["No GPU work in these reports: NVTX ranges only"]
    if count < total:
        notes[0] += ", in the framed stretch; elsewhere their time is summed in bins"
    notes += [f"{left:,} {what} are left out" for left, what in _list_left_out(ranks) if left]
    if max((len(rank.events.names) for rank in ranks), default=0) > MOST_NAMES:
        notes.append(f"names beyond the first {MOST_NAMES:,} are left out")
    if paths:
        notes.append("the critical path is that of the steps that are replayed")
    note = name_program(f"{'; '.join(notes)}. All of them: invoke timeline.")
    return render_tag("p", render_text(note), class_="note")


def _list_left_out(ranks: Sequence[RankPicture]) -> tuple[tuple[int, str], ...]:
    return (
        (sum(rank.host.calls_left_out for rank in ranks), "short CUDA calls of that stretch"),
        (
            sum(rank.host.stacks_left_out for rank in ranks),
            "short stretches of the host's functions",
        ),
        (sum(rank.ranges_left_out for rank in ranks), "short or deeply nested NVTX ranges"),
    )


_LEGEND = (
    ("compute", "compute"),
    ("transfer", "communication"),
    ("wait", "wait in it for another rank"),
    ("memory", "copies and memsets"),
    ("calls", "CUDA calls"),
    ("stacks", "the host's functions and pauses"),
)
_CONTROLS = """
<div class="tools">
<button type="button" data-key="+" aria-label="Zoom in">+</button>
<button type="button" data-key="-" aria-label="Zoom out">&minus;</button>
<button type="button" data-key="ArrowLeft" aria-label="Earlier">&larr;</button>
<button type="button" data-key="ArrowRight" aria-label="Later">&rarr;</button>
<button type="button" data-key="0">All</button>
<select id="timeline-step" aria-label="Go to a step"><option value="">Go to step</option></select>
<select id="timeline-window" aria-label="Go to a window" hidden></select>
<select id="timeline-ranks" aria-label="Ranks shown" hidden></select>
<button type="button" id="timeline-host" aria-pressed="true" hidden>Host rows</button>
<output id="timeline-view" aria-live="polite"></output>
</div>
<div class="tools">
<input type="search" id="timeline-search" placeholder="Search events of all ranks"
aria-label="Search the events of all ranks">
<button type="button" id="timeline-before" aria-label="Event found before" disabled
>&lsaquo;</button>
<button type="button" id="timeline-after" aria-label="Next event found" disabled>&rsaquo;</button>
<output id="timeline-found" aria-live="polite"></output>
</div>
"""
_DRAWING = """
<div class="time">
<canvas class="axis" aria-hidden="true"></canvas>
<div class="rows"><div class="tall"><canvas class="lanes" tabindex="0" role="img"
aria-label="Timeline by rank: compute, communication, memory, the critical path, CUDA calls, the
host's functions and NVTX ranges. Arrow keys move, plus and minus zoom, 0 shows all, N goes to the
next event found. The time of each part is in the table of Where the time went."></canvas></div>
</div>
<div class="tip" hidden></div>
</div>
<p id="timeline-picked" class="picked" aria-live="polite" hidden></p>
<noscript><p class="note">The timeline needs JavaScript; everything else on this page does not.
</p></noscript>
"""
