"""Table event_trace: what ran between two times: GPU operations, CUDA API calls, NVTX ranges."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, COPY, SET, Activity
from gpu_profile.analysis.activity.cached import activities_of, host_ranges_of
from gpu_profile.analysis.activity.nvtx_ranges import Ranges
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import tid_of
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Start", "ns"),
    Column("Duration", "ns"),
    Column("Rank"),
    Column("Kind"),
    Column("Place"),
    Column("Name"),
)
HINT = "no event in the time that --between 1.5s:1510ms chooses; step_trace has those of steps"
KINDS = {COMPUTE: "kernel", COMMUNICATION: "communication", COPY: "copy", SET: "memset"}
Row = tuple[Cell, ...]


def collect_events(database: Database, scope: Scope) -> list[Row]:
    """The events of one report that overlap `scope.between`."""
    activities = activities_of(database, scope)
    if not activities:
        of_host = host_ranges_of(database, scope)
        return list(chain.from_iterable(_list_ranges(*item, scope) for item in of_host))
    rows = [row for activity in activities for row in _list_operations(activity, scope)]
    # Devices of one process share its calls and ranges.
    by_process = {activity.process: activity for activity in reversed(activities)}
    for activity in by_process.values():
        rows += _list_calls(activity, scope)
        rows += _list_ranges(activity.rank, activity.ranges, scope)
    return rows


def merge_events(parts: Sequence[Sequence[Row]]) -> Table:
    """One row for each event, sorted by start on the run's clock.

    Kind is kernel, communication, copy, memset, call or range. Place is "GPU 0, stream 7" or
    "thread 4711".
    """
    # By text first: events of one ns then have one order, however the reports are read.
    rows = sorted(chain.from_iterable(parts), key=lambda row: tuple(map(str, row[2:])))
    rows.sort(key=lambda row: int(row[0] or 0))
    return Table("event_trace", COLUMNS, tuple(rows), HINT)


def _list_operations(activity: Activity, scope: Scope) -> Iterator[Row]:
    ops = activity.ops
    rows = _find_overlapping(ops.start, ops.end[:], scope)
    start, duration = _list_times(ops.start, ops.end[:], rows, scope)
    columns = (start, duration, ops.kind[rows].tolist(), ops.stream[rows].tolist())
    for row, (begin, length, kind, stream) in zip(rows, zip(*columns, strict=True), strict=True):
        place = f"GPU {activity.device}, stream {stream}"
        name = activity.names[int(ops.name[row])]
        yield (begin, length, activity.rank, KINDS[kind], place, name)


def _list_calls(activity: Activity, scope: Scope) -> Iterator[Row]:
    calls = activity.calls
    rows = _find_overlapping(calls.start, calls.end[:], scope)
    times = _list_times(calls.start, calls.end[:], rows, scope)
    columns = (*times, tid_of(calls.thread_of(rows)).tolist(), calls.name[rows].tolist())
    for start, duration, thread, name in zip(*columns, strict=True):
        place = f"thread {thread}"
        yield (start, duration, activity.rank, "call", place, activity.names[name])


def _list_ranges(rank: int, ranges: Ranges, scope: Scope) -> Iterator[Row]:
    rows = _find_overlapping(ranges.start, ranges.end, scope)
    times = _list_times(ranges.start, ranges.end, rows, scope)
    columns = (*times, tid_of(ranges.thread[rows]).tolist(), ranges.name[rows].tolist())
    for start, duration, thread, name in zip(*columns, strict=True):
        yield (start, duration, rank, "range", f"thread {thread}", ranges.names[name])


def _find_overlapping(start: IntArray, end: IntArray, scope: Scope) -> IntArray:
    first, last = (time - scope.offset_ns for time in scope.between)
    return np.flatnonzero((start < last) & (end > first))


def _list_times(
    start: IntArray, end: IntArray, rows: IntArray, scope: Scope
) -> tuple[list[int], list[int]]:
    """The start on the run's clock and the duration of these rows, in ns."""
    return (start[rows] + scope.offset_ns).tolist(), (end[rows] - start[rows]).tolist()


EVENT_TRACE = Analysis(
    "event_trace",
    collect_events,
    merge_events,
    doc="what ran between two times (--between): GPU operations, calls, ranges",
    is_of_part=True,
)
