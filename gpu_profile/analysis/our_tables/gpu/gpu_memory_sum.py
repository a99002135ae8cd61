"""Table gpu_memory_sum: peak and final GPU memory that each rank reserved."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from gpu_profile.analysis.counters.gpu_memory import load_reserved
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import pid_of
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Rank"),
    Column("Device"),
    Column("Kind"),
    Column("Peak", "MB", 3),
    Column("Peak At", "ns"),
    Column("End", "MB", 3),
    Column("Allocations"),
    Column("Frees"),
)
HINT = "no memory of a GPU in the report: record with --preset=full"
Row = tuple[Cell, ...]


def partial(database: Database, scope: Scope) -> list[Row]:
    """The finished rows of one report's processes."""
    table_rows: list[Row] = []
    for reserved in load_reserved(database):
        pid = int(pid_of(np.array(reserved.process)))
        peak = int(np.argmax(reserved.bytes))
        sizes = (
            reserved.bytes[peak] / 1e6,
            int(reserved.time[peak]) + scope.offset_ns,
            reserved.bytes[-1] / 1e6,
        )
        counts = reserved.allocations, reserved.frees
        row = (float(sizes[0]), sizes[1], float(sizes[2]), *counts)
        table_rows.append((scope.ranks.get(pid, 0), reserved.device, reserved.kind, *row))
    return table_rows


def merge(parts: Sequence[Sequence[Row]]) -> Table:
    """One row for each rank, device and kind of memory; Peak At is on the run's clock.

    Reserved is what the process allocated from CUDA; PyTorch's caching allocator hands out parts
    of it.
    """
    rows = sorted(chain.from_iterable(parts), key=lambda row: (row[0], row[1], str(row[2])))
    return Table("gpu_memory_sum", COLUMNS, tuple(rows), HINT)


GPU_MEMORY_SUM = Analysis(
    "gpu_memory_sum",
    partial,
    merge,
    doc="memory reserved on each GPU, its peak and when. Needs --preset=full",
)
