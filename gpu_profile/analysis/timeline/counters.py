"""Counter tracks of a timeline: queued operations, copy bandwidth, nsys' GPU metrics."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COPY, Activity
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.cells import integer_or_none, text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records

_MOST_POINTS = 100_000  # more points give no visible difference


@dataclass(frozen=True, eq=False)
class Series:
    """A curve that has `value` from each `time` (ns) on."""

    title: str
    unit: str
    time: IntArray
    value: NDArray[np.float64]


def make_counters(activity: Activity) -> Iterator[Series]:
    """The curves computed from one rank's events."""
    ops = activity.ops
    if len(ops.start):
        yield _sample_series(_count_queued(activity))
    copies = ops.kind == COPY
    if copies.any():
        yield _sample_series(_compute_rate(ops.start[copies], ops.end[copies], ops.bytes[copies]))


def _count_queued(activity: Activity) -> Series:
    """The number of operations that the host has launched and the GPU has not begun."""
    issue_time = np.minimum(activity.launch_starts[:], activity.ops.start)
    time = np.concatenate((issue_time, activity.ops.start))
    change = np.repeat(np.array([1, -1]), len(issue_time))
    return _sum_changes("GPU operations queued", "operations", time, change.astype(float))


def _compute_rate(start: IntArray, end: IntArray, size: IntArray) -> Series:
    rate = size / np.maximum(end - start, 1)  # bytes per ns = GB/s
    time = np.concatenate((start, end))
    return _sum_changes("GPU copy bandwidth", "GB/s", time, np.concatenate((rate, -rate)))


def _sum_changes(title: str, unit: str, time: IntArray, change: NDArray[np.float64]) -> Series:
    order = np.argsort(time, kind="stable")
    time, value = time[order], np.cumsum(change[order])
    last = np.flatnonzero(np.r_[time[1:] != time[:-1], True])
    # Sums of floats end near 0, not at it; + 0.0 turns -0.0 into 0.0.
    return Series(title, unit, time[last], np.round(value[last], 6) + 0.0)


def _sample_series(series: Series) -> Series:
    """Every n-th point and the last one, with exact values."""
    stride = -(-len(series.time) // _MOST_POINTS)
    rows = np.unique(np.r_[np.arange(0, len(series.time), stride), len(series.time) - 1])
    return Series(series.title, series.unit, series.time[rows], series.value[rows])


def gpu_metrics(database: Database) -> list[Series]:
    """The curves of GPU_METRICS (`--gpu-metrics-devices`) for each GPU and metric, in percent.

    Source: "GPU Metrics" in the Nsight Systems user guide; the GPU's number is typeId & 0xFF.
    """
    columns = database.load("GPU_METRICS", "timestamp", "typeId", "metricId", "value")
    titles = dict(
        read_records(
            database, "TARGET_INFO_GPU_METRICS", integer_or_none("metricId"), text("metricName")
        )
    )
    series = []
    for kind in np.unique(columns["typeId"]):
        for metric in np.unique(columns["metricId"][columns["typeId"] == kind]):
            chosen = (columns["typeId"] == kind) & (columns["metricId"] == metric)
            order = np.argsort(columns["timestamp"][chosen], kind="stable")
            title = f"GPU {int(kind) & 0xFF}: {titles.get(int(metric), f'metric {int(metric)}')}"
            time, value = columns["timestamp"][chosen][order], columns["value"][chosen][order]
            series.append(Series(title, "%", time, value.astype(float)))
    return series
