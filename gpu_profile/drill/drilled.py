"""Join what nsys recorded of the chosen kernels with what ncu measured, as table and lines."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_profile import files
from gpu_profile.drill.choose_kernels import DrillPlan, Kernel
from gpu_profile.drill.ncu_details import Launch
from gpu_profile.errors import GpuProfileError
from gpu_profile.formats.function_names import shorten_name
from gpu_profile.table import Column, Table

FILE = "drill.json"
_MOST_BYTES = 1 << 22
_NAME_WIDTH = 70
_LINES_OF_ADVICE = 2
_ADVICE_LENGTH = 200
COLUMNS = (
    *(Column("Kernel"), Column("Grid"), Column("Block"), Column("Launches"), Column("Place")),
    *(Column("Time", "ns"), Column("Share", "%"), Column("Measured", "ns")),
    *(Column("Compute", "%"), Column("Memory", "%"), Column("Occupancy", "%")),
    *(Column("Limited By"), Column("Advice")),
)


@dataclass(frozen=True)
class Drilled:
    """A chosen kernel, and its launch as ncu measured it; None where ncu did not meet it."""

    kernel: Kernel
    launch: Launch | None


def match_launches(plan: DrillPlan, launches: Sequence[Launch]) -> tuple[Drilled, ...]:
    """Find each kernel at its place, or else the nearest launch of its name, grid and block."""
    return tuple(Drilled(kernel, _match(kernel, launches)) for kernel in plan.kernels)


def _match(kernel: Kernel, launches: Sequence[Launch]) -> Launch | None:
    alike = [place for place, launch in enumerate(launches) if _is_like(kernel, launch)]
    exact = [place for place in alike if launches[place].name.split() == kernel.name.split()]
    nearest = min(exact or alike, key=lambda place: abs(place - kernel.offset), default=None)
    return None if nearest is None else launches[nearest]


def _is_like(kernel: Kernel, launch: Launch) -> bool:
    has_shape = launch.grid == kernel.grid and launch.block == kernel.block
    return kernel.short_name in launch.name and (has_shape or not any(kernel.block))


def make_table(plan: DrillPlan, drilled: Sequence[Drilled]) -> Table:
    """Return a row for each kernel that was to be measured; without figures where ncu met none."""
    rows = tuple(_make_row(plan, each.kernel, each.launch) for each in drilled)
    return Table("drill", COLUMNS, rows)


def _make_row(plan: DrillPlan, kernel: Kernel, launch: Launch | None) -> tuple[Any, ...]:
    shape = ("x".join(map(str, kernel.grid)), "x".join(map(str, kernel.block)))
    share = round(100 * kernel.total_ns / max(plan.step_ns, 1), 2)
    cells = (kernel.name, *shape, kernel.times, kernel.place, kernel.ns, share)
    if launch is None:
        return (*cells, None, None, None, None, None, None)
    texts = (advice.text for advice in launch.advice[:_LINES_OF_ADVICE])
    counters = (round(launch.ns), launch.compute, launch.memory, launch.occupancy)
    return (*cells, *counters, launch.limit, " ".join(texts))


def tell_drilled(plan: DrillPlan, drilled: Sequence[Drilled]) -> Iterator[str]:
    """Yield the lines for a reader: three or four a kernel."""
    where = f"step {plan.step}" if plan.step >= 0 else "the recording"
    for number, each in enumerate(drilled, 1):
        kernel, launch = each.kernel, each.launch
        share = 100 * kernel.total_ns / max(plan.step_ns, 1)
        shape = f"grid {'x'.join(map(str, kernel.grid))}, block {'x'.join(map(str, kernel.block))}"
        yield f"{number}. {shorten_name(kernel.name, _NAME_WIDTH)}"
        often = "once" if kernel.times == 1 else f"{kernel.times} times"
        yield f"   {share:.1f} % of the kernels' time in {where}: {often}; {shape}"
        if launch is None:
            yield f"   launch {kernel.place} was not met under ncu"
            continue
        yield f"   {_describe_launch(kernel, launch)}"
        for advice in launch.advice[:_LINES_OF_ADVICE]:
            speedup = f" (up to {advice.speedup:.0f} %)" if advice.speedup else ""
            yield f"   ncu{speedup}: {_shorten_text(advice.text)}"
    for name in plan.far_names:
        yield f"not measured, too far from the others: {shorten_name(name, _NAME_WIDTH)}"


def _shorten_text(text: str) -> str:
    """Return the first sentences, up to some 200 characters; drill.json has them all."""
    sentences = re.split(r"(?<=[.)]) (?=[A-Z])", text)
    short = sentences[0]
    for sentence in sentences[1:]:
        if len(short) + len(sentence) > _ADVICE_LENGTH:
            break
        short = f"{short} {sentence}"
    return short


def _describe_launch(kernel: Kernel, launch: Launch) -> str:
    limits = {"latency": "limited by latency: neither roof is near"}
    limit = limits.get(launch.limit, f"limited by {launch.limit}")
    return (
        f"{launch.ns / 1e3:.1f} us under ncu, {kernel.ns / 1e3:.1f} us recorded; "
        f"compute {launch.compute:.0f} % and memory {launch.memory:.0f} % of the roof; {limit}"
    )


def read_remarks(directory: Path) -> Mapping[str, str]:
    """Return a line for the page on each kernel that was drilled, by its name; {} without any.

    The file is input: one that is damaged has no lines.
    """
    try:
        rows = json.loads(files.read_text(directory / FILE, _MOST_BYTES))["drill"]
        return {str(row["Kernel"]): _make_remark(row) for row in reversed(rows)}
    except (GpuProfileError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _make_remark(row: Mapping[str, Any]) -> str:
    if row["Compute (%)"] is None:
        return ""
    shares = f"compute {float(row['Compute (%)']):.0f} %, memory {float(row['Memory (%)']):.0f} %"
    advice = _shorten_text(str(row["Advice"]))
    return f"ncu: {shares} of the roof, limited by {row['Limited By']}. {advice}"
