"""nsys' tables of kernels by name, and by name, grid and block."""

from functools import partial

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.labels import labels
from gpu_profile.analysis.tables.statistics import Key
from gpu_profile.analysis.tables.summary import (
    GPU_BY,
    GPU_COLUMNS,
    Grouped,
    Shape,
    counted,
    summary,
)
from gpu_profile.table import Column

GRID_AND_BLOCK = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
CATEGORY = "CUDA_KERNEL"


def by_name(database: Database, scope: Scope) -> Grouped:
    """Kernel durations by demangled name."""
    label = partial(labels, database)
    return counted(database, scope, KERNEL, ["demangledName"], GPU_COLUMNS, label)


def by_launch(database: Database, scope: Scope) -> Grouped:
    """Kernel durations by grid, block and demangled name."""
    label = partial(_launches, database)
    return counted(database, scope, KERNEL, [*GRID_AND_BLOCK, "demangledName"], GPU_COLUMNS, label)


def _launches(database: Database, found: list[tuple[int, ...]]) -> list[Key]:
    names = labels(database, [launch[6:] for launch in found])
    return [
        (_three(launch[:3]), _three(launch[3:6]), *name)
        for launch, name in zip(found, names, strict=True)
    ]


def _three(sizes: tuple[int, ...]) -> str:
    return " ".join(f"{size:4d}" for size in sizes)


NAME = (Column("Name"),)
LAUNCH = (Column("GridXYZ"), Column("BlockXYZ"), *NAME)
KERNELS = summary(Shape("cuda_gpu_kern_sum", "Instances", NAME, fewer_first=True), by_name, GPU_BY)
LAUNCHES = summary(
    Shape("cuda_gpu_kern_gb_sum", "Instances", LAUNCH, fewer_first=True),
    by_launch,
    GPU_BY,
)
