"""Analyses by name; a module is imported only when its analysis is used, which saves start-up
time.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_profile.analysis.tables.analysis import Analysis


class AnalysisByName(Mapping[str, "Analysis"]):
    """A mapping of names to analyses. `places`: "module.NAME" of each one in this package."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> "Analysis":
        module, _, constant = self._places[name].rpartition(".")
        analysis: Analysis = getattr(import_module(f"gpu_profile.analysis.{module}"), constant)
        return analysis

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places


ANALYSES = AnalysisByName(
    {
        "cuda_gpu_kern_sum": "nsys_tables.cuda_gpu_kern_sum.KERNELS",
        "cuda_gpu_kern_gb_sum": "nsys_tables.cuda_gpu_kern_sum.LAUNCHES",
        "cuda_api_sum": "nsys_tables.cuda_api_sum.CALLS",
        "cuda_api_gpu_sum": "nsys_tables.cuda_gpu_sum.API_GPU_SUM",
        "cuda_gpu_sum": "nsys_tables.cuda_gpu_sum.GPU_SUM",
        "cuda_kern_exec_sum": "nsys_tables.cuda_kern_exec_sum.EXECUTION",
        "cuda_gpu_mem_time_sum": "nsys_tables.cuda_gpu_mem_sum.TIMES",
        "cuda_gpu_mem_size_sum": "nsys_tables.cuda_gpu_mem_sum.SIZES",
        "nvtx_sum": "nsys_tables.nvtx_sum.ALL",
        "nvtx_pushpop_sum": "nsys_tables.nvtx_sum.PUSH_POP",
        "nvtx_gpu_proj_sum": "nsys_tables.nvtx_gpu_proj.SUM",
        "nvtx_kern_sum": "nsys_tables.nvtx_kern_sum.KERNELS",
        "osrt_sum": "nsys_tables.osrt_sum.CALLS",
        "mpi_event_sum": "nsys_tables.mpi_event_sum.CALLS",
        "cuda_gpu_trace": "nsys_tables.cuda_gpu_trace.OPERATIONS",
        "nvtx_gpu_proj_trace": "nsys_tables.nvtx_gpu_proj.TRACE",
    }
)


OURS = AnalysisByName(
    {
        "temporal_breakdown": "our_tables.temporal_breakdown.TEMPORAL_BREAKDOWN",
        "step_sum": "our_tables.step_sum.STEP_SUM",
        "step_trace": "our_tables.step_trace.STEP_TRACE",
        "comm_sum": "our_tables.comm_sum.COMM_SUM",
        "module_sum": "our_tables.module_sum.MODULE_SUM",
        "module_flops": "our_tables.module_flops.MODULE_FLOPS",
        "range_gpu_sum": "our_tables.range_gpu_sum.RANGE_GPU_SUM",
        "idle_gaps": "our_tables.idle_gaps.IDLE_GAPS",
        "launch_sum": "our_tables.launch_sum.LAUNCH_SUM",
        "kernel_class_sum": "our_tables.kernel_class_sum.KERNEL_CLASS_SUM",
        "host_function_sum": "our_tables.host_function_sum.HOST_FUNCTION_SUM",
        "gpu_metric_sum": "our_tables.gpu_metric_sum.GPU_METRIC_SUM",
        "gpu_memory_sum": "our_tables.gpu_memory_sum.GPU_MEMORY_SUM",
        "capture_health": "our_tables.capture_health.CAPTURE_HEALTH",
    }
)
