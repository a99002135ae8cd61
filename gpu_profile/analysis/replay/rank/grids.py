"""The grids of kernels: equal kernels have equal ones, and few blocks leave part of a GPU idle."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.arrays.columns import is_rising, narrow_column
from gpu_profile.analysis.arrays.intervals import PART
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.cells import integer_or_none, text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import KERNEL

GRID = ("gridX", "gridY", "gridZ")


@dataclass(frozen=True, eq=False)
class Grids:
    """By operation: `number` tells equal grids, `blocks` is how many blocks a grid has. Both are 0
    for what is no kernel, and where they are unknown.
    """

    number: IntArray
    blocks: IntArray


def load_grids(activity: Activity, database: Database, rows: IntArray) -> Grids:
    """The grids of these operations.

    Two kernels that start in the same ns on streams of one number are told by neither device nor
    process: five columns of a million kernels take 0.12 s, nine 0.22.
    """
    ops = activity.ops
    if not len(rows) or not database.has(KERNEL, *GRID):
        return Grids(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64))
    first, last = int(ops.start[rows].min()), int(ops.start[rows].max())
    parts = _read_grids(database, first, last)
    key, number, blocks = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not is_rising(key):
        order = np.argsort(key, kind="stable")  # nsys writes nearly sorted rows
        key, number, blocks = key[order], number[order], blocks[order]
    grids = Grids(np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64))
    for begin in range(0, len(rows) if len(key) else 0, PART):
        part = slice(begin, begin + PART)
        sought = _make_keys(ops.start[rows[part]], ops.stream[rows[part]])
        place = np.minimum(np.searchsorted(key, sought), len(key) - 1)
        matches = key[place] == sought
        grids.number[part] = np.where(matches, number[place], 0)
        grids.blocks[part] = np.where(matches, blocks[place], 0)
    return grids


def _read_grids(
    database: Database, first: int, last: int
) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """(key, number, blocks) of the kernels that start from `first` to `last`, part by part."""
    for table in database.parts(KERNEL, "start", "streamId", *GRID):
        picks = np.flatnonzero((table["start"] >= first) & (table["start"] <= last))
        x, y, z = (table[name][picks] for name in GRID)
        # A prime in place of a pair: where two grids get one number, kernels of one name count as
        # equal.
        key = _make_keys(table["start"][picks], table["streamId"][picks])
        yield key, narrow_column(x * 1009 + y), narrow_column(x * y * z)


def _make_keys(start: IntArray, stream: IntArray) -> IntArray:
    return start * 65536 + stream


def count_multiprocessors(database: Database, gpu: str) -> int:
    """How many multiprocessors a GPU of this model has; 0 where the report does not say it."""
    columns = text("name"), integer_or_none("smCount?")
    counts = dict(read_records(database, "TARGET_INFO_GPU", *columns))
    return max(counts.get(gpu) or 0, 0)
