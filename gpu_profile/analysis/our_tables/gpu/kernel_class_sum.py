"""Table kernel_class_sum: GPU time by class of kernel (GEMM, attention, norm …)."""

from functools import partial

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import GRAPH, KERNEL
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.kernel_class import classify_kernel
from gpu_profile.analysis.tables.labels import label_ids
from gpu_profile.analysis.tables.statistics import Key
from gpu_profile.analysis.tables.summary import (
    GPU_BY,
    GPU_COLUMNS,
    Grouped,
    TableShape,
    count_table,
    make_summary,
    merge_sources,
)
from gpu_profile.table import Column

# A graph traced as a whole (nsys --cuda-graph-trace=graph) does not list its kernels.
GRAPH_CLASS = "CUDA graph"


def _group_kernels(database: Database, scope: Scope) -> Grouped:
    label = partial(_label_classes, database)
    return count_table(database, scope, KERNEL, ["demangledName"], GPU_COLUMNS, label)


def _group_graphs(database: Database, scope: Scope) -> Grouped:
    return count_table(database, scope, GRAPH, ["deviceId"], GPU_COLUMNS, _label_graphs)


def _label_classes(database: Database, combinations: list[tuple[int, ...]]) -> list[Key]:
    return [(classify_kernel(str(name)),) for (name,) in label_ids(database, combinations)]


def _label_graphs(combinations: list[tuple[int, ...]]) -> list[Key]:
    return [(GRAPH_CLASS,)] * len(combinations)


SHAPE = TableShape("kernel_class_sum", "Instances", (Column("Class"),))
KERNEL_CLASS_SUM = make_summary(
    SHAPE,
    partial(merge_sources, (_group_kernels, _group_graphs)),
    GPU_BY,
    "GPU time by class of kernel: GEMM, attention, norm, communication, …",
)
"""One row for each class, longest total first; without graphs as much as cuda_gpu_kern_sum."""
