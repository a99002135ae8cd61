"""Bar and line charts as HTML and SVG, readable by browsers, printers and screen readers.

Text is HTML and is not scaled with the drawing, so it stays readable on a phone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.page.events import RankPicture
from gpu_profile.analysis.page.parts import (
    format_duration,
    format_percent,
    render_legend,
    render_tag,
    render_text,
)

# A letter of the label needs 6.6 px (12.5px system-ui), and the track has 850 of a page's 1,200 px:
# a part that is too narrow is labelled only in the tooltip and the table.
_LETTER, _TRACK = 6.6, 850
_THIN_FROM = 24
_LINES_UP_TO = 8


@dataclass(frozen=True)
class BarPart:
    """A part of a bar: its CSS class, full label, short label inside the bar, with which the
    full one begins, and amount.
    """

    name: str
    label: str
    short_name: str
    value: float


@dataclass(frozen=True)
class Bar:
    """A bar with its name, such as "rank 3": "" where the run has one rank alone."""

    label: str
    parts: tuple[BarPart, ...]
    remark: str = ""

    @property
    def total(self) -> float:
        return sum(part.value for part in self.parts)


def draw_stacked(bars: Sequence[Bar], total: float | None = None) -> str:
    """Stacked bars. Each bar fills its line, or value / `total` of it if `total` is given."""
    labels = {part.name: part.label for bar in bars for part in bar.parts}
    filled = {part.name for bar in bars for part in bar.parts if part.value > 0}
    used = {name: label for name, label in labels.items() if name in filled}
    thin = " thin" if len(bars) > _THIN_FROM else ""
    rows = [_draw_bar(bar, total or bar.total) for bar in bars if bar.total]
    return render_legend(used.items()) + render_tag("div", *rows, class_=f"bars{thin}")


def _label_part(part: BarPart, bar: Bar, total: float) -> str:
    """The short label, where it fits into the part on a wide screen. Elsewhere CSS hides it."""
    label = f"{part.short_name} {part.value / bar.total:.0%}"
    fits = len(label) * _LETTER + 6 <= _TRACK * part.value / total
    return render_tag("span", render_text(label)) if fits else ""


def _draw_bar(bar: Bar, total: float) -> str:
    parts = [part for part in bar.parts if part.value > 0]
    label = ", ".join(f"{part.label.lower()} {_format_amount(part, bar)}" for part in parts)
    whose = f"{bar.label}: " if bar.label else ""
    cells = (
        render_tag(
            "span",
            _label_part(part, bar, total),
            class_=f"part {part.name}",
            style=f"width:{100 * part.value / total:.3f}%",
            title=f"{whose}{part.label}, {_format_amount(part, bar)}",
        )
        for part in parts
    )
    track = render_tag("span", *cells, class_="track", role="img", aria_label=f"{whose}{label}")
    name = render_tag("span", render_text(bar.label), class_="name") if bar.label else ""
    return render_tag(
        "div",
        name,
        track,
        render_tag("span", render_text(bar.remark), class_="remark"),
        class_="bar" if bar.label else "bar lone",
    )


def _format_amount(part: BarPart, bar: Bar) -> str:
    return f"{format_duration(part.value)} ({format_percent(part.value / bar.total)})"


def draw_ranking(rows: Sequence[tuple[str, float, str]], what: str) -> str:
    """Plain bars under their names, from rows of (name, amount, remark), longest first."""
    most = max((amount for _, amount, _ in rows), default=0) or 1
    items = (
        render_tag(
            "li",
            render_tag("span", render_text(name), class_="long", title=name, tabindex=0),
            render_tag("span", render_text(remark), class_="remark"),
            render_tag(
                "span", render_tag("i", style=f"width:{100 * amount / most:.2f}%"), class_="rule"
            ),
        )
        for name, amount, remark in rows
    )
    return render_tag("ol", *items, class_="ranking", aria_label=what)


def step_lines(ranks: Sequence[RankPicture], dropped: int) -> str:
    """A chart of step times: one line for each rank, of many the slowest, median and fastest."""
    series = {states.rank: (states.steps_end - states.steps_start) / 1e6 for states in ranks}
    series = {rank: values for rank, values in series.items() if len(values) > 1}
    if not series:
        return ""
    return draw_lines(_select_drawn(series), dropped, _describe_series(series))


def draw_lines(
    drawn: Sequence[tuple[str, np.ndarray]], dropped: int, about: str = "Step times"
) -> str:
    """A chart of lines of ms by step; the first `dropped` steps are shaded as warm-up."""
    series = [values for _, values in drawn]
    levels, high = _scale_of(series, dropped)
    longest = max(map(len, series))
    place = _Place(longest, levels[0], high)
    lines = "".join(
        f'<polyline class="line s{index % 8}" points="{place.points(values)}"/>'
        for index, values in enumerate(series)
    )
    grid = "".join(f'<line class="grid" x1="0" x2="1000" {place.level(tick)}/>' for tick in levels)
    labels = [
        render_tag(
            "span", render_text(f"{tick:g} ms"), class_="y", style=f"top:{place.top(tick):.2f}%"
        )
        for tick in levels
    ]
    shade = f'<rect class="dropped" x="0" y="0" height="300" width="{place.x(dropped):.1f}"/>'
    svg = (
        '<svg viewBox="0 0 1000 300" preserveAspectRatio="none" role="img" '
        f'aria-label="{render_text(about)}">{shade if dropped else ""}{grid}{lines}</svg>'
    )
    ends = render_tag(
        "div", render_tag("span", "step 1"), render_tag("span", f"step {longest}"), class_="x"
    )
    return render_legend(_list_keys(drawn, dropped, high)) + render_tag(
        "div", render_tag("div", *labels, svg, class_="plot"), ends, class_="chart"
    )


def _list_keys(
    drawn: Sequence[tuple[str, np.ndarray]], dropped: int, high: float
) -> list[tuple[str, str]]:
    """The legend of a chart whose highest value drawn is `high`."""
    entries = [(f"line s{index % 8}", label) for index, (label, _) in enumerate(drawn)]
    if dropped:
        slowest = max(float(values.max()) for _, values in drawn)
        cut = f", up to {slowest:,.0f} ms" if slowest > high else ""
        entries.append(("dropped", f"warm-up, left out of the figures ({dropped}{cut})"))
    return entries


def _scale_of(series: Sequence[np.ndarray], dropped: int) -> tuple[list[float], float]:
    """The levels of the grid in ms, and the highest value drawn: by the steps after the warm-up.

    A first step of 4,400 ms before others of 35 ms would leave these on the axis.
    """
    steady = [values[dropped:] if len(values) > dropped else values for values in series]
    most = max(float(values.max()) for values in steady)
    least = min(float(values.min()) for values in steady)
    levels = ticks(0 if least < most / 3 else least - (most - least) / 2, most)
    return levels, max(levels[-1], most * 1.001)


def _select_drawn(series: dict[int, np.ndarray]) -> list[tuple[str, np.ndarray]]:
    if list(series) == [0]:
        return [("step time", series[0])]
    if len(series) <= _LINES_UP_TO:
        return [(f"rank {rank}", values) for rank, values in series.items()]
    count = min(map(len, series.values()))
    stack = np.stack([values[:count] for values in series.values()])
    slowest = max(series, key=lambda rank: float(np.median(series[rank])))
    return [
        ("slowest rank of each step", stack.max(axis=0)),
        ("median rank", np.median(stack, axis=0)),
        ("fastest rank of each step", stack.min(axis=0)),
        (f"rank {slowest}, slowest by median", series[slowest]),
    ]


@dataclass(frozen=True)
class _Place:
    """Converts step numbers and milliseconds to coordinates of the 1000 x 300 drawing."""

    count: int
    low: float
    high: float

    def x(self, index: float) -> float:
        return 1000 * index / max(1, self.count - 1)

    def top(self, value: float) -> float:
        return 100 * (self.high - value) / (self.high - self.low)

    def level(self, value: float) -> str:
        return f'y1="{3 * self.top(value):.1f}" y2="{3 * self.top(value):.1f}"'

    def points(self, values: np.ndarray) -> str:
        """`0.0,12.5 0.3,12.7 …`, at the edge for values beyond it, as in the warm-up.

        A run of 8 ranks with 3,000 steps has 27,000 points.
        """
        values = np.clip(values, self.low, self.high)
        across = 1000 * np.arange(len(values)) / max(1, self.count - 1)
        down = 3 * (100 * (self.high - values) / (self.high - self.low))
        pairs = zip(across.tolist(), down.tolist(), strict=True)
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)


def ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers for an axis from below `low` to about `high`."""
    span = max(high - low, 1e-6)
    size = 10 ** np.floor(np.log10(span))
    step = next(size * k for k in (0.2, 0.5, 1, 2, 5) if span / (size * k) <= 5)
    first = np.floor(low / step) * step
    return [
        round(float(first + k * step), 9) for k in range(int(np.ceil((high - first) / step)) + 1)
    ]


def _describe_series(series: dict[int, np.ndarray]) -> str:
    if list(series) == [0]:
        return f"Step times; the median is {np.median(series[0]):.2f} ms"
    middles = ", ".join(
        f"rank {rank} {np.median(values):.2f} ms" for rank, values in list(series.items())[:16]
    )
    return f"Step times; the median of each rank: {middles}"


__all__ = ["Bar", "BarPart", "draw_lines", "draw_ranking", "draw_stacked", "step_lines", "ticks"]
