"""nsys' table of kernels by name."""

from functools import partial

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.labels import label_ids
from gpu_profile.analysis.tables.summary import (
    GPU_BY,
    GPU_COLUMNS,
    Grouped,
    TableShape,
    count_table,
    make_summary,
)
from gpu_profile.table import Column

CATEGORY = "CUDA_KERNEL"


def label_kernels(database: Database, scope: Scope) -> Grouped:
    """Kernel durations by demangled name."""
    label = partial(label_ids, database)
    return count_table(database, scope, KERNEL, ["demangledName"], GPU_COLUMNS, label)


CUDA_GPU_KERN_SUM = make_summary(
    TableShape("cuda_gpu_kern_sum", "Instances", (Column("Name"),), fewer_first=True),
    label_kernels,
    GPU_BY,
    "kernels by name",
)
