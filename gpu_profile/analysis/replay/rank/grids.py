"""The launch configuration of kernels, by which equal kernels are told."""

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, Activity
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL

GRID = ("gridX", "gridY")


def load_grids(activity: Activity, database: Database, rows: IntArray) -> IntArray:
    """A number of each kernel's grid, by which equal kernels are told; 0 for other operations.

    Only needed where communication runs beside kernels: see contention.py. Two kernels that start
    in the same ns on streams of one number are told by neither device nor process: four columns of
    a million kernels take 0.1 s, eight 0.2.
    """
    grid, ops = np.zeros(len(rows), np.int64), activity.ops
    if not np.any(ops.kind[rows] == COMMUNICATION) or not database.has(KERNEL, *GRID):
        return grid
    table = database.load(KERNEL, "start", "streamId", *GRID, sort=False)
    first, last = int(ops.start[rows].min()), int(ops.start[rows].max())
    picks = np.flatnonzero((table["start"] >= first) & (table["start"] <= last))
    number = np.zeros(len(picks), np.int64)
    for name in GRID:
        # A prime in place of a pair: where two grids get one number, kernels of one name count as
        # equal.
        number = number * 1009 + table[name][picks]
    key = table["start"][picks] * 65536 + table["streamId"][picks]
    order = np.argsort(key, kind="stable")  # nsys writes nearly sorted rows
    sought = ops.start[rows] * 65536 + ops.stream[rows]
    place = np.minimum(np.searchsorted(key[order], sought), max(len(picks) - 1, 0))
    if len(picks):
        matches = key[order][place] == sought
        grid[matches] = number[order][place[matches]]
    return grid
