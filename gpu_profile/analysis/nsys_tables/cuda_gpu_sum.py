"""nsys' tables that hold several kinds of work: GPU operations, and these with API calls."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from gpu_profile.analysis.nsys_tables import cuda_api_sum as api
from gpu_profile.analysis.nsys_tables import cuda_gpu_kern_sum as kernels
from gpu_profile.analysis.nsys_tables import cuda_gpu_mem_sum as memory
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.summary import (
    GPU_BY,
    GROUPS,
    HOST_BY,
    Grouped,
    Shape,
    summary,
    together,
)
from gpu_profile.table import Column

Part = Callable[[Database, Scope], Grouped]
KEY = (Column("Category"), Column("Operation"))


def _categorised(category: str, part: Part, database: Database, scope: Scope) -> Grouped:
    found = part(database, scope)
    width = len(GROUPS[scope.by])
    keys = tuple((*key[:width], category, *key[width:]) for key in found.samples.keys)
    return Grouped(scope.by, replace(found.samples, keys=keys))


def _part(sources: Sequence[tuple[str, Part]], database: Database, scope: Scope) -> Grouped:
    parts = [partial(_categorised, category, part) for category, part in sources]
    return together(parts, database, scope)


GPU = ((kernels.CATEGORY, kernels.by_name), (memory.CATEGORY, memory.by_time))
ALL = (*GPU, (api.CATEGORY, api.by_name))

GPU_SUM = summary(Shape("cuda_gpu_sum", "Instances", KEY), partial(_part, GPU), GPU_BY)
API_GPU_SUM = summary(Shape("cuda_api_gpu_sum", "Instances", KEY), partial(_part, ALL), HOST_BY)
