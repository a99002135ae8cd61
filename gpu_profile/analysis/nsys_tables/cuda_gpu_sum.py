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
    TableShape,
    make_summary,
    merge_sources,
)
from gpu_profile.table import Column

Part = Callable[[Database, Scope], Grouped]
KEY = (Column("Category"), Column("Operation"))


def _label_category(category: str, part: Part, database: Database, scope: Scope) -> Grouped:
    samples = part(database, scope)
    width = len(GROUPS[scope.by])
    keys = tuple((*key[:width], category, *key[width:]) for key in samples.samples.keys)
    return Grouped(scope.by, replace(samples.samples, keys=keys))


def _load_part(sources: Sequence[tuple[str, Part]], database: Database, scope: Scope) -> Grouped:
    parts = [partial(_label_category, category, part) for category, part in sources]
    return merge_sources(parts, database, scope)


GPU = ((kernels.CATEGORY, kernels.label_kernels), (memory.CATEGORY, memory.by_time))
ALL = (*GPU, (api.CATEGORY, api.label_calls))

GPU_SUM = make_summary(
    TableShape("cuda_gpu_sum", "Instances", KEY), partial(_load_part, GPU), GPU_BY
)
API_GPU_SUM = make_summary(
    TableShape("cuda_api_gpu_sum", "Instances", KEY), partial(_load_part, ALL), HOST_BY
)
