"""Bars and lines as HTML and SVG that any browser, printer and screen reader can show.

Text is HTML and never scales with the drawing, so it stays readable on a phone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.page.events import RankPicture
from gpu_profile.analysis.page.parts import duration, legend, percent, tag, text

_LABEL_FROM = 0.11  # narrower parts have their label in the tooltip and the table only
_THIN_FROM = 24
_LINES_UP_TO = 8


@dataclass(frozen=True)
class Part:
    """A part of a bar: its CSS class, full label, short label inside the bar, and amount."""

    name: str
    label: str
    short: str
    value: float


@dataclass(frozen=True)
class Bar:
    label: str
    parts: tuple[Part, ...]
    remark: str = ""

    @property
    def total(self) -> float:
        return sum(part.value for part in self.parts)


def stacked(bars: Sequence[Bar], whole: float | None = None) -> str:
    """Bars of parts; each fills its line, or its part of `whole` where that is given."""
    used = {part.name: part.label for bar in bars for part in bar.parts if part.value > 0}
    thin = " thin" if len(bars) > _THIN_FROM else ""
    rows = [_bar(bar, whole or bar.total) for bar in bars if bar.total]
    return legend(used.items()) + tag("div", *rows, class_=f"bars{thin}")


def _bar(bar: Bar, whole: float) -> str:
    parts = [part for part in bar.parts if part.value > 0]
    said = ", ".join(f"{part.label.lower()} {_amount(part, bar)}" for part in parts)
    cells = (
        tag(
            "span",
            text(f"{part.short} {part.value / bar.total:.0%}")
            if part.value / whole >= _LABEL_FROM
            else "",
            class_=f"part {part.name}",
            style=f"width:{100 * part.value / whole:.3f}%",
            title=f"{bar.label}: {part.label}, {_amount(part, bar)}",
        )
        for part in parts
    )
    track = tag("span", *cells, class_="track", role="img", aria_label=f"{bar.label}: {said}")
    name = tag("span", text(bar.label), class_="name")
    return tag("div", name, track, tag("span", text(bar.remark), class_="remark"), class_="bar")


def _amount(part: Part, bar: Bar) -> str:
    return f"{duration(part.value)} ({percent(part.value / bar.total)})"


def ranking(rows: Sequence[tuple[str, float, str]], what: str) -> str:
    """(name, amount, remark), longest first: plain bars under their names."""
    most = max((amount for _, amount, _ in rows), default=0) or 1
    items = (
        tag(
            "li",
            tag("span", text(name), class_="long", title=name, tabindex=0),
            tag("span", text(remark), class_="remark"),
            tag("span", tag("i", style=f"width:{100 * amount / most:.2f}%"), class_="rule"),
        )
        for name, amount, remark in rows
    )
    return tag("ol", *items, class_="ranking", aria_label=what)


def step_lines(ranks: Sequence[RankPicture], dropped: int) -> str:
    """Step times over the run: a line a rank, or for many ranks their range and the slowest."""
    series = {one.rank: (one.steps_end - one.steps_start) / 1e6 for one in ranks}
    series = {rank: values for rank, values in series.items() if len(values) > 1}
    if not series:
        return ""
    most = max(float(values.max()) for values in series.values())
    least = min(float(values.min()) for values in series.values())
    levels = ticks(0 if least < most / 3 else least - (most - least) / 2, most)
    low, high = levels[0], max(levels[-1], most * 1.001)
    longest = max(map(len, series.values()))
    drawn = _drawn(series)
    place = _Place(longest, low, high)
    lines = "".join(
        f'<polyline class="line s{index % 8}" points="{place.points(values)}"/>'
        for index, (_, values) in enumerate(drawn)
    )
    grid = "".join(f'<line class="grid" x1="0" x2="1000" {place.level(tick)}/>' for tick in levels)
    labels = [
        tag("span", text(f"{tick:g} ms"), class_="y", style=f"top:{place.top(tick):.2f}%")
        for tick in levels
    ]
    shade = f'<rect class="dropped" x="0" y="0" height="300" width="{place.x(dropped):.1f}"/>'
    svg = (
        '<svg viewBox="0 0 1000 300" preserveAspectRatio="none" role="img" '
        f'aria-label="{text(_said(series))}">{shade if dropped else ""}{grid}{lines}</svg>'
    )
    entries = [(f"line s{index % 8}", label) for index, (label, _) in enumerate(drawn)]
    if dropped:
        entries.append(("dropped", f"warm-up, left out of the figures ({dropped})"))
    ends = tag("div", tag("span", "step 1"), tag("span", f"step {longest}"), class_="x")
    return legend(entries) + tag(
        "div", tag("div", *labels, svg, class_="plot"), ends, class_="chart"
    )


def _drawn(series: dict[int, np.ndarray]) -> list[tuple[str, np.ndarray]]:
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
    """From step numbers and milliseconds to the drawing's 1000 x 300."""

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
        return " ".join(
            f"{self.x(index):.1f},{3 * self.top(float(value)):.1f}"
            for index, value in enumerate(values)
        )


def ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers from below `low` to about `high`."""
    span = max(high - low, 1e-6)
    size = 10 ** np.floor(np.log10(span))
    step = next(size * k for k in (0.2, 0.5, 1, 2, 5) if span / (size * k) <= 5)
    first = np.floor(low / step) * step
    return [
        round(float(first + k * step), 9) for k in range(int(np.ceil((high - first) / step)) + 1)
    ]


def _said(series: dict[int, np.ndarray]) -> str:
    middles = ", ".join(
        f"rank {rank} {np.median(values):.2f} ms" for rank, values in list(series.items())[:16]
    )
    return f"Step times; the median of each rank: {middles}"


__all__ = ["Bar", "Part", "ranking", "stacked", "step_lines", "ticks"]
