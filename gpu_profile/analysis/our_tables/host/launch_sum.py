"""Table launch_sum: time of launching calls, and from the call to the GPU's start, by rank."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from gpu_profile.analysis.activity.activity import NO_CALL, Activity
from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Rank"),
    Column("API Name"),
    Column("Count"),
    *(Column(f"API {name}", "ns") for name in ("Avg", "Med", "P95", "Max")),
    *(Column(f"Queue {name}", "ns") for name in ("Avg", "Med", "P95", "Max")),
    Column("Max Depth"),
)
Row = tuple[Cell, ...]


def collect_launches(database: Database, scope: Scope) -> list[Row]:
    """The finished rows of one report's ranks; a rank is in one report only."""
    return list(chain.from_iterable(_build_rows(rank) for rank in activities_of(database, scope)))


def merge_launches(parts: Sequence[Sequence[Row]]) -> Table:
    """One row for each rank and API name.

    API is the time of the call. Queue is from its end to the start of the operation (0 if that had
    begun), near 0 if the GPU waits for work. Max Depth counts operations issued and not finished.
    """
    rows = sorted(chain.from_iterable(parts), key=lambda row: (row[0], -int(row[2] or 0), row[1]))
    return Table("launch_sum", COLUMNS, tuple(rows))


def _build_rows(activity: Activity) -> list[Row]:
    ops, calls, depth = activity.ops, activity.calls, _compute_queue_depth(activity)
    has_call = ops.call != NO_CALL
    call, started = ops.call, ops.start
    if not has_call.all():
        call, started, depth = call[has_call], started[has_call], depth[has_call]
    name, length = calls.name[call], calls.end[call]
    queue = started - length  # from the end of the call
    np.maximum(queue, 0, out=queue)
    length -= calls.start[call]
    rows: list[Row] = []
    for code in list_distinct(name):
        chosen = np.flatnonzero(name == code)
        numbers = (
            *_compute_spread(length[chosen]),
            *_compute_spread(queue[chosen]),
            int(depth[chosen].max()),
        )
        rows.append((activity.rank, activity.names[code], len(chosen), *numbers))
    return rows


def _compute_queue_depth(activity: Activity) -> IntArray:
    """The number of operations issued (with this one) and not finished at each launch."""
    order = np.argsort(activity.launch_starts[:], kind="stable")  # launches and ends mostly rise
    launched = activity.launch_starts[order]
    rising = _count_up_to_each(launched)
    rising -= np.searchsorted(np.sort(activity.ops.end[:], kind="stable"), launched, "right")
    depth = np.empty_like(rising)
    depth[order] = rising
    return depth


def _count_up_to_each(rising: IntArray) -> IntArray:
    """How many of these times are not after each of them: in a tenth of searchsorted's time."""
    count = np.arange(1, len(rising) + 1)
    last = np.flatnonzero(np.append(rising[1:] != rising[:-1], True))
    if len(last) < len(rising):
        count = np.repeat(count[last], np.diff(last, prepend=-1))
    return count


def _compute_spread(values: IntArray) -> tuple[float, float, float, int]:
    middle, high = np.quantile(values, (0.5, 0.95))
    mean = round(float(values.mean()), 1)
    return mean, round(float(middle), 1), round(float(high), 1), int(values.max())


LAUNCH_SUM = Analysis(
    "launch_sum",
    collect_launches,
    merge_launches,
    doc="the time from the host's call to the GPU's start, by rank and call",
)
