"""Curves of GPU hardware metrics in the steady part, and of memory over the recording."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.counters import gpu_metrics as metrics
from gpu_profile.analysis.counters.gpu_memory import on_device
from gpu_profile.analysis.our_tables.gpu.gpu_metric_sum import steady_span
from gpu_profile.analysis.page.curves import Curve, curves
from gpu_profile.analysis.page.parts import (
    data_table,
    render_folded,
    render_section,
    render_tag,
    render_text,
)
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.table import Table

_BINS, _MOST_GPUS, _MOST_RANKS = 300, 8, 8
_DRAWN = {
    "SMs active": metrics.SM_ACTIVE,
    "SM occupancy (warps in flight)": metrics.OCCUPANCY,
    "tensor cores active": metrics.TENSOR,
    "memory reads": metrics.DRAM_READ,
    "memory writes": metrics.DRAM_WRITE,
}
"""(seconds on the run's clock, values)."""


@dataclass(frozen=True, eq=False)
class GpuCounters:
    """The curves of one report: metrics by GPU and name, and each rank's reserved memory in GB."""

    gpus: tuple[tuple[int, tuple[Curve, ...]], ...]
    memory: tuple[Curve, ...]


def counters_part(database: Database, scope: Scope) -> GpuCounters:
    """The curves of one report, with at most 300 means of each metric and some 600 points of
    memory.
    """
    span, gpu_metrics = steady_span(database, scope), metrics.load_metrics(database)
    gpus = sorted({metric.gpu for metric in gpu_metrics})[:_MOST_GPUS]
    drawn = tuple(
        (gpu, _make_metric_curves(gpu_metrics, gpu, span, scope.offset_ns)) for gpu in gpus
    )
    memory = []
    for rank in activities_of(database, scope)[:_MOST_RANKS]:
        time, size = on_device(database, rank.process, rank.device)
        if len(time):
            memory.append(_make_memory_curve(f"rank {rank.rank}", time + scope.offset_ns, size))
    return GpuCounters(tuple((gpu, lines) for gpu, lines in drawn if lines), tuple(memory))


def _make_metric_curves(
    gpu_metrics: tuple[metrics.Metric, ...], gpu: int, span: tuple[int, int], offset: int
) -> tuple[Curve, ...]:
    chosen = {
        name: metrics.metric_of(gpu_metrics, gpu, pattern) for name, pattern in _DRAWN.items()
    }
    curves_found = []
    for name, metric in chosen.items():
        part = metric.between(*span) if metric else None
        if part is not None and len(part.time):
            curves_found.append(_bin_metric(name, part, offset))
    return tuple(curves_found)


def _bin_metric(name: str, metric: metrics.Metric, offset: int) -> Curve:
    edges = np.linspace(metric.time[0], metric.time[-1] + 1, _BINS + 1)
    place = np.clip(np.searchsorted(edges, metric.time, side="right") - 1, 0, _BINS - 1)
    count = np.bincount(place, minlength=_BINS)
    sums = np.bincount(place, weights=metric.value, minlength=_BINS)
    rows = np.flatnonzero(count)
    middle = (edges[:-1] + edges[1:])[rows] / 2 + offset
    return Curve(name, middle / 1e9, sums[rows] / count[rows])


def _make_memory_curve(name: str, time: NDArray[np.int64], size: NDArray[np.int64]) -> Curve:
    """Every n-th point of the curve, always with its peak."""
    keep = np.unique(
        np.r_[0 : len(time) : max(1, len(time) // 300), np.argmax(size), len(time) - 1]
    )
    corners = np.repeat(keep, 2)
    # Steps, not slopes: memory keeps its size until the next allocation.
    return Curve(name, time[corners][1:] / 1e9, size[corners][:-1] / 1e9)


def gpu_counters(parts: Sequence[GpuCounters], table: Table) -> str:
    """A chart for each sampled GPU, and the metrics as a table; "" without samples."""
    charts = [
        render_tag("h3", render_text(f"GPU {gpu}")) + curves(lines, "%", low=0.0, high=100.0)
        for part in parts
        for gpu, lines in part.gpus
    ][:_MOST_GPUS]
    if not charts:
        return ""
    intro = (
        "Sampled in hardware, after start-up; means of short stretches. Occupancy is the "
        "warps in flight against the most that fit; matrix products in float32 use no tensor cores."
    )
    numbers = render_folded("All metrics as a table", data_table(table, "GPU metrics"))
    return render_section("metrics", "How much of the GPU was used", intro, *charts, numbers)


def gpu_memory(parts: Sequence[GpuCounters], table: Table, is_alone: bool = False) -> str:
    """A chart of reserved memory with a line for each rank; "" if it was not recorded."""
    lines = [line for part in parts for line in part.memory][:_MOST_RANKS]
    if not lines:
        return ""
    if is_alone:
        lines = [replace(line, name="reserved") for line in lines]
    peak = max(lines, key=lambda line: float(line.value.max()))
    most = int(np.argmax(peak.value))
    whose = "" if is_alone else f", of {peak.name},"
    intro = (
        f"What processes reserved on their GPUs. The peak is {peak.value[most]:,.2f} GB{whose} at "
        f"{peak.time[most]:.2f} s. PyTorch hands out parts of what it reserved."
    )
    numbers = render_folded("The same as a table", data_table(table, "Reserved GPU memory"))
    return render_section("memory", "GPU memory", intro, curves(lines, "GB", low=0.0), numbers)
