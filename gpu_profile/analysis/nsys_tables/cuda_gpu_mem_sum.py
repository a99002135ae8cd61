"""nsys' tables of copies and sets, by time and by size."""

from collections.abc import Sequence
from functools import partial

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import MEMCPY, MEMSET
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.labels import SET_LABEL, copy_label
from gpu_profile.analysis.tables.statistics import Key
from gpu_profile.analysis.tables.summary import (
    GPU_BY,
    GPU_COLUMNS,
    Grouped,
    Shape,
    grouped,
    needed,
    summary,
    together,
)
from gpu_profile.table import Column

CATEGORY = "MEMORY_OPER"
OPERATION = (Column("Operation"),)


def _copies(value: str, database: Database, scope: Scope) -> Grouped:
    rows = database.load(MEMCPY, value, "copyKind", *needed(scope, GPU_COLUMNS), sort=False)
    return grouped(rows, scope, rows[value], GPU_COLUMNS, [rows["copyKind"]], _copy_labels)


def _sets(value: str, database: Database, scope: Scope) -> Grouped:
    rows = database.load(MEMSET, value, "deviceId", *needed(scope, GPU_COLUMNS), sort=False)
    nothing = rows["deviceId"] * 0
    return grouped(rows, scope, rows[value], GPU_COLUMNS, [nothing], _set_labels)


def _copy_labels(found: list[tuple[int, ...]]) -> list[Key]:
    return [(copy_label(kind),) for (kind,) in found]


def _set_labels(found: Sequence[tuple[int, ...]]) -> list[Key]:
    return [(SET_LABEL,)] * len(found)


def _both(value: str, database: Database, scope: Scope) -> Grouped:
    return together([partial(_copies, value), partial(_sets, value)], database, scope)


by_time = partial(_both, "end-start")
by_size = partial(_both, "bytes")

TIMES = summary(Shape("cuda_gpu_mem_time_sum", "Count", OPERATION), by_time, GPU_BY)
SIZES = summary(
    Shape("cuda_gpu_mem_size_sum", "Count", OPERATION, "Total", "MB", 3, 1e-6), by_size, GPU_BY
)
