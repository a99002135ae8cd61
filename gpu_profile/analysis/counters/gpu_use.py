"""How much of the GPU the kernels use, by its sampled hardware metrics."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.activity.start_up import steady_window
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.counters import gpu_metrics as metrics
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import pid_of
from gpu_profile.analysis.tables.kernel_class import classify_kernel

# GEMMs on tensor cores keep them 20 to 90 % active; fp32 GEMMs show 0 %.
TENSOR_PERCENT, GEMM_SHARE = 2.0, 0.2
# Kernels with enough thread blocks keep nearly all SMs active.
SM_PERCENT, COMPUTE_SHARE = 40.0, 0.3
FEWEST_SAMPLES = 20
NAMES = {
    "SMs active": metrics.SM_ACTIVE,
    "tensor cores": metrics.TENSOR,
    "SM occupancy": metrics.OCCUPANCY,
    "memory reads": metrics.DRAM_READ,
    "memory writes": metrics.DRAM_WRITE,
}


@dataclass(frozen=True)
class GpuUse:
    """Means in percent, by the keys of NAMES, while kernels (`compute`) or GEMMs (`gemm`) run.

    `gemm_share` is the part of the steady time in which GEMMs run.
    """

    compute: Mapping[str, float]
    gemm: Mapping[str, float]
    gemm_share: float = 0.0

    def line(self) -> str:
        """E.g. "while kernels run: SMs active 85 %, tensor cores 12 %"; "" without samples."""
        parts = [f"{name} {value:.0f} %" for name, value in self.compute.items()]
        return f"while kernels run: {', '.join(parts)}" if parts else ""


NO_USE = GpuUse({}, {})


def gpu_use(activity: Activity, database: Database) -> GpuUse:
    """The use of one rank's GPU; NO_USE if it was not sampled in this report."""
    gpu_metrics = metrics.load_metrics(database)
    gpu = _number(activity, database)
    chosen = {name: metrics.metric_of(gpu_metrics, gpu, pattern) for name, pattern in NAMES.items()}
    sampled = {name: one for name, one in chosen.items() if one}
    if not sampled:
        return NO_USE
    first, last = steady_window(activity)
    span = Intervals(np.array([first]), np.array([last]))
    compute, gemm = (part.meet(span) for part in (activity.ops.union(COMPUTE), _gemms(activity)))
    means = [
        {name: mean for name, one in sampled.items() if (mean := _mean(one, part)) is not None}
        for part in (compute, gemm)
    ]
    return GpuUse(means[0], means[1], gemm.total / max(1, last - first))


def _number(activity: Activity, database: Database) -> int:
    """The GPU's number on its host, from the process's CUDA device number."""
    rows = database.rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")
    numbers = {(int(str(pid)), int(str(cuda))): int(str(gpu)) for pid, cuda, gpu in rows}
    pid = int(pid_of(np.array(activity.process)))
    return numbers.get((pid, activity.device), activity.device)


def _gemms(activity: Activity) -> Intervals:
    ops = activity.ops
    is_compute = ops.kind == COMPUTE
    codes = [key for key in list_distinct(ops.name[is_compute]) if _is_gemm(activity.names[key])]
    rows = is_compute & is_among(ops.name, codes)
    return Intervals.union(ops.start[rows], ops.end[rows])


def _is_gemm(name: str) -> bool:
    """Whether the kernel is a GEMM. CUTLASS kernels have the short name `Kernel` or `Kernel2` in
    nsys.
    """
    return classify_kernel(name) == "GEMM" or bool(re.fullmatch(r"Kernel2?", name))


def _mean(metric: metrics.Metric, part: Intervals) -> float | None:
    """The mean of the samples inside the intervals; None with fewer than FEWEST_SAMPLES."""
    if not len(part.start):
        return None
    place = np.searchsorted(part.start, metric.time, side="right") - 1
    inside = (place >= 0) & (metric.time < part.end[np.maximum(place, 0)])
    values = metric.value[inside]
    return float(np.mean(values)) if len(values) >= FEWEST_SAMPLES else None
