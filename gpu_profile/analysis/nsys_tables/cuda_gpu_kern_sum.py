"""nsys' tables of kernels by name, and by name, grid and block."""

from functools import partial

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.labels import label_ids
from gpu_profile.analysis.tables.statistics import Key
from gpu_profile.analysis.tables.summary import (
    GPU_BY,
    GPU_COLUMNS,
    Grouped,
    TableShape,
    count_table,
    make_summary,
)
from gpu_profile.table import Column

GRID_AND_BLOCK = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
CATEGORY = "CUDA_KERNEL"


def label_kernels(database: Database, scope: Scope) -> Grouped:
    """Kernel durations by demangled name."""
    label = partial(label_ids, database)
    return count_table(database, scope, KERNEL, ["demangledName"], GPU_COLUMNS, label)


def by_launch(database: Database, scope: Scope) -> Grouped:
    """Kernel durations by grid, block and demangled name."""
    label = partial(_label_launches, database)
    return count_table(
        database, scope, KERNEL, [*GRID_AND_BLOCK, "demangledName"], GPU_COLUMNS, label
    )


def _label_launches(database: Database, combinations: list[tuple[int, ...]]) -> list[Key]:
    names = label_ids(database, [launch[6:] for launch in combinations])
    return [
        (_format_sizes(launch[:3]), _format_sizes(launch[3:6]), *name)
        for launch, name in zip(combinations, names, strict=True)
    ]


def _format_sizes(sizes: tuple[int, ...]) -> str:
    return " ".join(f"{size:4d}" for size in sizes)


NAME = (Column("Name"),)
LAUNCH = (Column("GridXYZ"), Column("BlockXYZ"), *NAME)
KERNELS = make_summary(
    TableShape("cuda_gpu_kern_sum", "Instances", NAME, fewer_first=True), label_kernels, GPU_BY
)
LAUNCHES = make_summary(
    TableShape("cuda_gpu_kern_gb_sum", "Instances", LAUNCH, fewer_first=True),
    by_launch,
    GPU_BY,
)
