"""nsys' table of copies and memsets by size."""

from gpu_profile.analysis.nsys_tables.shared.memory_operations import OPERATION, by_size
from gpu_profile.analysis.tables.summary import GPU_BY, TableShape, make_summary

CUDA_GPU_MEM_SIZE_SUM = make_summary(
    TableShape("cuda_gpu_mem_size_sum", "Count", OPERATION, "Total", "MB", 3, 1e-6),
    by_size,
    GPU_BY,
    "copies and memsets by size",
)
