"""Copies and memsets as nsys' tables count them, by time or by size."""

from collections.abc import Sequence
from functools import partial

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import MEMCPY, MEMSET
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.labels import SET_LABEL, copy_label
from gpu_profile.analysis.tables.statistics import Key
from gpu_profile.analysis.tables.summary import (
    GPU_COLUMNS,
    Grouped,
    group_samples,
    list_needed,
    merge_sources,
)
from gpu_profile.table import Column

CATEGORY = "MEMORY_OPER"
OPERATION = (Column("Operation"),)


def _load_copies(value: str, database: Database, scope: Scope) -> Grouped:
    rows = database.load(MEMCPY, value, "copyKind", *list_needed(scope, GPU_COLUMNS), sort=False)
    return group_samples(rows, scope, rows[value], GPU_COLUMNS, [rows["copyKind"]], _copy_labels)


def _load_sets(value: str, database: Database, scope: Scope) -> Grouped:
    rows = database.load(MEMSET, value, "deviceId", *list_needed(scope, GPU_COLUMNS), sort=False)
    nothing = rows["deviceId"] * 0
    return group_samples(rows, scope, rows[value], GPU_COLUMNS, [nothing], _set_labels)


def _copy_labels(combinations: list[tuple[int, ...]]) -> list[Key]:
    return [(copy_label(kind),) for (kind,) in combinations]


def _set_labels(combinations: Sequence[tuple[int, ...]]) -> list[Key]:
    return [(SET_LABEL,)] * len(combinations)


def _load_copies_and_sets(value: str, database: Database, scope: Scope) -> Grouped:
    return merge_sources(
        [partial(_load_copies, value), partial(_load_sets, value)], database, scope
    )


by_time = partial(_load_copies_and_sets, "end-start")
by_size = partial(_load_copies_and_sets, "bytes")
