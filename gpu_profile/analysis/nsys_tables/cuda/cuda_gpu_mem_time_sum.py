"""nsys' table of copies and memsets by time."""

from gpu_profile.analysis.nsys_tables.shared.memory_operations import OPERATION, by_time
from gpu_profile.analysis.tables.summary import GPU_BY, TableShape, make_summary

CUDA_GPU_MEM_TIME_SUM = make_summary(
    TableShape("cuda_gpu_mem_time_sum", "Count", OPERATION),
    by_time,
    GPU_BY,
    "copies and memsets by time",
)
