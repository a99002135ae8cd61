"""Analyses: reports in, tables out. `ANALYSES` holds those that `nsys stats` has, by its names."""

from gpu_profile.analysis import (
    api,
    kernels,
    launch_times,
    memory,
    mixed,
    mpi,
    nvtx,
    osrt,
    projection_tables,
    range_kernels,
    trace,
)
from gpu_profile.analysis.analysis import Analysis

_NSYS = (
    kernels.KERNELS,
    kernels.LAUNCHES,
    api.CALLS,
    mixed.API_GPU_SUM,
    mixed.GPU_SUM,
    launch_times.EXECUTION,
    memory.TIMES,
    memory.SIZES,
    nvtx.ALL,
    nvtx.PUSH_POP,
    projection_tables.SUM,
    range_kernels.KERNELS,
    osrt.CALLS,
    mpi.CALLS,
    trace.OPERATIONS,
    projection_tables.TRACE,
)

ANALYSES: dict[str, Analysis] = {analysis.name: analysis for analysis in _NSYS}
