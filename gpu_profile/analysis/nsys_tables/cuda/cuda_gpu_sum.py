"""nsys' table of kernels, copies and memsets by name."""

from functools import partial

from gpu_profile.analysis.nsys_tables.cuda import cuda_gpu_kern_sum
from gpu_profile.analysis.nsys_tables.shared import memory_operations
from gpu_profile.analysis.nsys_tables.shared.categories import CATEGORY_KEY, load_categories
from gpu_profile.analysis.tables.summary import GPU_BY, TableShape, make_summary

GPU = (
    (cuda_gpu_kern_sum.CATEGORY, cuda_gpu_kern_sum.label_kernels),
    (memory_operations.CATEGORY, memory_operations.by_time),
)
CUDA_GPU_SUM = make_summary(
    TableShape("cuda_gpu_sum", "Instances", CATEGORY_KEY),
    partial(load_categories, GPU),
    GPU_BY,
    "kernels, copies and memsets by name",
)
