"""nsys' table of CUDA API calls and GPU operations by name."""

from functools import partial

from gpu_profile.analysis.nsys_tables.cuda import cuda_api_sum
from gpu_profile.analysis.nsys_tables.cuda.cuda_gpu_sum import GPU
from gpu_profile.analysis.nsys_tables.shared.categories import CATEGORY_KEY, load_categories
from gpu_profile.analysis.tables.summary import HOST_BY, TableShape, make_summary

CUDA_API_GPU_SUM = make_summary(
    TableShape("cuda_api_gpu_sum", "Instances", CATEGORY_KEY),
    partial(load_categories, (*GPU, (cuda_api_sum.CATEGORY, cuda_api_sum.label_calls))),
    HOST_BY,
    "CUDA API calls and GPU operations by name",
)
