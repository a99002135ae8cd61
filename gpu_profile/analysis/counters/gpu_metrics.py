"""GPU hardware metrics over time (nsys --gpu-metrics-devices): SMs, tensor cores, DRAM bandwidth.

Source: "GPU Metrics" in the Nsight Systems user guide; the GPU's number is typeId & 0xFF.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.cells import integer_or_none, text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records

METRICS = "GPU_METRICS"
# The metric names are alike for every chip since Turing, e.g. "SMs Active" or "SM Active".
SM_ACTIVE, TENSOR, OCCUPANCY, DRAM_READ, DRAM_WRITE = (
    re.compile(pattern)
    for pattern in (
        r"SMs? Active",
        r"Tensor (Pipe )?Active",
        r"Compute Warps [Ii]n Flight",
        r"DRAM Read",
        r"DRAM Write",
    )
)
_MHZ = re.compile(r"\[MHz\]")


@dataclass(frozen=True, eq=False)
class Metric:
    """The samples of one metric of one GPU, sorted by time; `value` in percent, or MHz for a
    clock.
    """

    gpu: int
    name: str
    unit: str
    time: IntArray
    value: IntArray

    def between(self, start: int, end: int) -> "Metric":
        """The samples with start <= time < end."""
        first, stop = np.searchsorted(self.time, (start, end))
        rows = slice(int(first), int(stop))
        return Metric(self.gpu, self.name, self.unit, self.time[rows], self.value[rows])


@once_each
def load_metrics(database: Database) -> tuple[Metric, ...]:
    """All metrics in percent or MHz of every sampled GPU; empty if nothing was sampled."""
    columns_of_names = integer_or_none("metricId"), text("metricName")
    rows = read_records(database, "TARGET_INFO_GPU_METRICS", *columns_of_names)
    metric_names = {
        key: name
        for key, name in rows
        if key is not None and (name.endswith("%]") or _MHZ.search(name))
    }
    if not metric_names or not database.has(METRICS):
        return ()
    columns = database.load(
        METRICS,
        "timestamp",
        "typeId",
        "metricId",
        "value",
        only={"metricId": metric_names},
        sort=False,
    )
    return tuple(_split(columns, metric_names))


def _split(columns: Mapping[str, IntArray], names: Mapping[int, str]) -> Iterator[Metric]:
    order = np.lexsort((columns["timestamp"], columns["metricId"], columns["typeId"]))
    kind, metric = columns["typeId"][order], columns["metricId"][order]
    time, value = columns["timestamp"][order], columns["value"][order]
    change = (kind[1:] != kind[:-1]) | (metric[1:] != metric[:-1])
    edges = [0, *(np.flatnonzero(change) + 1).tolist(), len(order)] if len(order) else []
    for first, stop in pairwise(edges):
        name = names[int(metric[first])]
        clock = bool(_MHZ.search(name))
        scaled = value[first:stop] // 1_000_000 if clock else value[first:stop]
        unit, title = ("MHz" if clock else "%"), name.partition(" [")[0]
        yield Metric(int(kind[first]) & 0xFF, title, unit, time[first:stop], scaled)


def metric_of(metrics: tuple[Metric, ...], gpu: int, pattern: re.Pattern[str]) -> Metric | None:
    """The metric of one GPU whose name matches the pattern, or None."""
    return next(
        (metric for metric in metrics if metric.gpu == gpu and pattern.match(metric.name)), None
    )
