"""The timeline's data for the page's script: facts in JSON, numbers in one packed block."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from gpu_profile.analysis.activity.states import RankStates, split_exposed
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.page.events import LANES, Marks, RankPicture
from gpu_profile.analysis.page.pack import Packer
from gpu_profile.analysis.page.parts import render_legend, render_tag
from gpu_profile.printable import name_program

_RANKS_AT_ONCE = 32
# A model has some 1,000 names. A million of them made a page of 55 MB and took 1.5 GB of memory.
MOST_NAMES = 20_000
OTHER_NAMES = "(one of many other names)"


@dataclass
class _Names:
    """An index for every distinct name over all ranks; OTHER_NAMES for those beyond MOST_NAMES."""

    redact: Callable[[str], str]
    known: dict[str, int] = field(default_factory=dict)
    """The index of each readable name, in the order of the page's list."""
    _index_by_raw_name: dict[str, int] = field(default_factory=dict)

    def codes(self, marks: Marks) -> IntArray:
        codes = [self._code(name) for name in marks.names]
        return np.array(codes, np.int64)[marks.name] if len(marks.name) else marks.name

    def _code(self, name: str) -> int:
        if (code := self._index_by_raw_name.get(name)) is not None:
            return code
        if len(self._index_by_raw_name) >= MOST_NAMES:
            return self.known.setdefault(OTHER_NAMES, len(self.known))
        code = self.known.setdefault(self.redact(name), len(self.known))
        self._index_by_raw_name[name] = code
        return code


@dataclass(frozen=True, eq=False)
class RankWaits:
    """When a rank waited in collectives for the last rank; sorted, on the run's clock."""

    start: IntArray
    end: IntArray


_NO_WAITS = RankWaits(np.empty(0, np.int64), np.empty(0, np.int64))
Edges: TypeAlias = Sequence[tuple[int, int, int]]
"""(number, start, end) of the windows."""
WaitsOf: TypeAlias = Mapping[tuple[int, int], RankWaits]
"""The waits by (rank, device)."""


def waits_of(parts: Iterable[RankStates], clock_error_ns: int, most: int) -> WaitsOf:
    """The waits of each rank, at most the `most` longest ones."""
    waits = {}
    for split in split_exposed(list(parts), clock_error_ns):
        collectives, matched = split.states.collectives, split.arrivals.matched
        start = collectives.start[matched]
        end = np.clip(split.arrivals.last[matched], start, collectives.end[matched])
        longest = np.argsort(start - end, kind="stable")[:most]
        rows = np.sort(longest[end[longest] > start[longest]])
        waits[split.states.rank, split.states.device] = RankWaits(start[rows], end[rows])
    return waits


def timeline_data(
    ranks: Sequence[RankPicture],
    waits: WaitsOf,
    redact: Callable[[str], str],
    windows: Edges = (),
) -> tuple[str, str]:
    """(facts as JSON, the block in base64). Times are ns from the earliest operation."""
    packer, names = Packer(), _Names(redact)
    origin = min((rank.start for rank in ranks), default=0)
    facts = {
        "origin": origin,
        "end": max((rank.end for rank in ranks), default=0) - origin,
        "lanes": LANES if _on_gpus(ranks) else (),
        "most": _RANKS_AT_ONCE,
        "windows": [
            [number, max(0, start - origin), end - origin] for number, start, end in windows
        ],
        "ranks": [
            {
                **_encode_rank(rank, origin, packer, names),
                "waits": _encode_waits(
                    waits.get((rank.rank, rank.device), _NO_WAITS), origin, packer
                ),
            }
            for rank in ranks
        ],
        "names": list(names.known),
    }
    return json.dumps(facts, separators=(",", ":")), packer.base64()


def _encode_rank(
    rank: RankPicture, origin: int, packer: Packer, names: _Names
) -> dict[str, object]:
    is_complete = rank.exact_start <= rank.start and rank.exact_end >= rank.end
    return {
        "rank": rank.rank,
        "width": rank.width,
        "first": rank.first * rank.width - origin,
        "busy": packer.add(rank.busy.ravel()),
        "exact": [rank.exact_start - origin, rank.exact_end - origin, int(is_complete)],
        "events": _encode_marks(rank.events, origin, packer, names),
        "depth": int(rank.ranges.lane.max()) + 1 if len(rank.ranges.lane) else 0,
        "nvtx": _encode_marks(rank.ranges, origin, packer, names),
        "steps": {
            "start": packer.add(np.maximum(rank.steps_start - origin, 0)),
            "end": packer.add(np.maximum(rank.steps_end - origin, 0)),
        },
    }


def _encode_waits(waits: RankWaits, origin: int, packer: Packer) -> dict[str, object]:
    return {
        "start": packer.add(np.maximum(waits.start - origin, 0)),
        "length": packer.add(waits.end - waits.start),
    }


def _encode_marks(marks: Marks, origin: int, packer: Packer, names: _Names) -> dict[str, object]:
    first = int(marks.start[0]) if len(marks.start) else origin
    return {
        "first": first - origin,
        "gap": packer.add(np.diff(marks.start, prepend=first)),
        "length": packer.add(np.maximum(marks.end - marks.start, 0)),
        "name": packer.add(names.codes(marks)),
        "lane": packer.add(marks.lane),
    }


def timeline_part(
    ranks: Sequence[RankPicture],
    waits: WaitsOf,
    redact: Callable[[str], str],
    windows: Edges = (),
) -> str:
    """The HTML of the timeline: its controls, its canvas, and its data."""
    facts, block = timeline_data(ranks, waits, redact, windows)
    return (
        _CONTROLS
        + (render_legend(_LEGEND) if _on_gpus(ranks) else "")
        + _DRAWING
        + _format_note(ranks)
        + _render_data("application/json", "facts", facts)
        + _render_data("text/plain", "data", block)
    )


def _on_gpus(ranks: Sequence[RankPicture]) -> bool:
    return any(rank.total_events for rank in ranks)


def _render_data(kind: str, name: str, content: str) -> str:
    escaped = content.replace("<", "\\u003c")
    return f'<script type="{kind}" id="timeline-{name}">{escaped}</script>\n'


def _format_note(ranks: Sequence[RankPicture]) -> str:
    count = sum(len(rank.events.start) for rank in ranks)
    total = sum(rank.total_events for rank in ranks)
    left_out = sum(rank.ranges_left_out for rank in ranks)
    sentence = f"{count:,} of {total:,} GPU operations are kept one by one"
    if not total:
        sentence = "No GPU work in these reports: NVTX ranges only"
    if count < total:
        sentence += ", in the framed stretch; elsewhere their time is summed in bins"
    if left_out:
        sentence += f"; {left_out:,} short or deeply nested NVTX ranges are left out"
    if max((len(rank.events.names) for rank in ranks), default=0) > MOST_NAMES:
        sentence += f"; names beyond the first {MOST_NAMES:,} are left out"
    note = name_program(f"{sentence}. All of them: invoke timeline.")
    return render_tag("p", note, class_="note")


_LEGEND = (
    ("compute", "compute"),
    ("transfer", "communication"),
    ("wait", "waiting in it for another rank"),
    ("memory", "copies and memsets"),
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
<output id="timeline-view" aria-live="polite"></output>
</div>
"""
_DRAWING = """
<div class="time">
<canvas class="axis" aria-hidden="true"></canvas>
<div class="rows"><canvas class="lanes" tabindex="0" role="img" aria-label="Timeline by rank:
compute, communication, memory and NVTX ranges. Arrow keys move, plus and minus zoom, 0 shows all.
The time of each part is in the table of Where the time went."></canvas></div>
<div class="tip" hidden></div>
</div>
<noscript><p class="note">The timeline needs JavaScript; everything else on this page does not.
</p></noscript>
"""
