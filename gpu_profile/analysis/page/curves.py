"""Line charts over time as SVG, with the text as HTML."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.page.charts import ticks
from gpu_profile.analysis.page.parts import render_legend, render_tag, render_text


@dataclass(frozen=True, eq=False)
class Curve:
    """One line of a chart: `time` in s, rising; `value` in the chart's unit."""

    name: str
    time: NDArray[np.float64]
    value: NDArray[np.float64]


def curves(lines: Sequence[Curve], unit: str, low: float, high: float = 0.0) -> str:
    """A chart from `low` to the largest value, or to `high` if that is not 0."""
    levels = [tick for tick in ticks(low, high or _find_most(lines)) if tick <= (high or np.inf)]
    top = max(levels[-1], high or _find_most(lines) * 1.001)
    first = min(float(line.time[0]) for line in lines)
    last = max(max(float(line.time[-1]) for line in lines), first + 1e-9)
    drawn = "".join(
        f'<polyline class="line s{index % 8}" points="{points}"/>'
        for index, points in enumerate(
            _format_points(line, first, last, low, top) for line in lines
        )
    )
    heights = {tick: 100 * (top - tick) / (top - low) for tick in levels}
    grid = "".join(
        f'<line class="grid" x1="0" x2="1000" y1="{3 * y:.1f}" y2="{3 * y:.1f}"/>'
        for y in heights.values()
    )
    labels = [
        render_tag("span", render_text(f"{tick:g} {unit}"), class_="y", style=f"top:{y:.2f}%")
        for tick, y in heights.items()
    ]
    names = ", ".join(f"{line.name} up to {line.value.max():.3g} {unit}" for line in lines)
    svg = (
        '<svg viewBox="0 0 1000 300" preserveAspectRatio="none" role="img" '
        f'aria-label="{render_text(names)}">{grid}{drawn}</svg>'
    )
    keys = render_legend([(f"line s{index % 8}", line.name) for index, line in enumerate(lines)])
    ends = render_tag(
        "div", render_tag("span", f"{first:.2f} s"), render_tag("span", f"{last:.2f} s"), class_="x"
    )
    return keys + render_tag(
        "div", render_tag("div", *labels, svg, class_="plot low"), ends, class_="chart"
    )


def _find_most(lines: Sequence[Curve]) -> float:
    return max(float(line.value.max()) for line in lines) or 1.0


def _format_points(line: Curve, first: float, last: float, low: float, top: float) -> str:
    x = 1000 * (line.time - first) / (last - first)
    y = 300 * (top - line.value) / (top - low)
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
