"""Analyses: reports in, tables out. `ANALYSES` holds those that `nsys stats` has, by its names."""

from gpu_profile.analysis.named import Named

ANALYSES = Named(
    {
        "cuda_gpu_kern_sum": "kernels.KERNELS",
        "cuda_gpu_kern_gb_sum": "kernels.LAUNCHES",
        "cuda_api_sum": "api.CALLS",
        "cuda_api_gpu_sum": "mixed.API_GPU_SUM",
        "cuda_gpu_sum": "mixed.GPU_SUM",
        "cuda_kern_exec_sum": "launch_times.EXECUTION",
        "cuda_gpu_mem_time_sum": "memory.TIMES",
        "cuda_gpu_mem_size_sum": "memory.SIZES",
        "nvtx_sum": "nvtx.ALL",
        "nvtx_pushpop_sum": "nvtx.PUSH_POP",
        "nvtx_gpu_proj_sum": "projection_tables.SUM",
        "nvtx_kern_sum": "range_kernels.KERNELS",
        "osrt_sum": "osrt.CALLS",
        "mpi_event_sum": "mpi.CALLS",
        "cuda_gpu_trace": "trace.OPERATIONS",
        "nvtx_gpu_proj_trace": "projection_tables.TRACE",
    }
)
