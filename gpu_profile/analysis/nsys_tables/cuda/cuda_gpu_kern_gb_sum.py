"""nsys' table of kernels by name, grid and block."""

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


def _load_part(database: Database, scope: Scope) -> Grouped:
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


KEY = (Column("GridXYZ"), Column("BlockXYZ"), Column("Name"))
CUDA_GPU_KERN_GB_SUM = make_summary(
    TableShape("cuda_gpu_kern_gb_sum", "Instances", KEY, fewer_first=True),
    _load_part,
    GPU_BY,
    "kernels by name, grid and block",
)
