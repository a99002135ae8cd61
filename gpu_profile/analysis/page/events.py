"""Reduce a rank's events to a size that fits into a page.

All of the recording is kept in coarse form: for each lane, the busy part of each bin. A stretch of
whole steps in the middle is kept exactly, with as many operations as the page's budget allows; of
a short run that is everything.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, COPY, SET, Activity
from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.nvtx_ranges import FOREVER, Ranges
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.columns import encode_column
from gpu_profile.analysis.arrays.nesting import nest_intervals
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.host.stacks import HostStacks, load_stacks
from gpu_profile.analysis.page.host_rows import (
    THREADS,
    HostRows,
    draw_calls,
    draw_stacks,
    find_threads,
    measure_calls,
)
from gpu_profile.analysis.page.marks import NO_MARKS, Marks
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.labels import SET_LABEL, copy_label

GPU_LANES = ("compute", "communication", "memory")
LANES = (*GPU_LANES, *(f"CUDA calls {number + 1}" for number in range(THREADS)))
"""What bins are kept of: the GPU's work, and the CUDA calls of some threads."""
_KINDS = ((COMPUTE,), (COMMUNICATION,), (COPY, SET))
_LANE_OF = np.array([0, 1, 2, 2])  # lane by kind of operation
# Copies and memsets have ids of ours (load/operations.py), and the names of nsys' tables.
_OURS = {-1 - kind: copy_label(kind) for kind in range(100)} | {-101: SET_LABEL}
_MOST_RANGES = 6_000
_DEEPEST = 3


@dataclass(frozen=True)
class Budget:
    """How many events (on the GPU, and calls of the host) and bins of one report the page holds."""

    events: int
    bins: int


@dataclass(frozen=True, eq=False)
class RankPicture:
    """The timeline of one rank. Bin i of a lane begins at (first + i) * width ns.

    `busy` has shape (lanes, bins), 0 to 255 for the busy part of the bin. `events` are all
    operations in [exact_start, exact_end], and so are the calls of `host`. `ranges` are the user's
    outer NVTX ranges.
    """

    rank: int
    device: int
    start: int
    end: int
    width: int
    first: int
    busy: NDArray[np.uint8]
    exact_start: int
    exact_end: int
    events: Marks
    ranges: Marks
    ranges_left_out: int
    host: HostRows
    steps_start: IntArray
    steps_end: IntArray
    total_events: int


def draw_pictures(database: Database, scope: Scope, budget: Budget) -> list[RankPicture]:
    """One picture for each rank of the report; they share its budget."""
    ranks = activities_of(database, scope)
    share = Budget(budget.events // max(1, len(ranks)), budget.bins // max(1, len(ranks)))
    stacks = load_stacks(database) if ranks else ()
    return [_draw_picture(activity, stacks, scope.offset_ns, share) for activity in ranks]


def _draw_picture(
    activity: Activity, stacks: Sequence[HostStacks], offset: int, budget: Budget
) -> RankPicture:
    ops, steps = activity.ops, find_steps(activity)
    start, end = int(ops.start[0]), int(ops.end.max())
    width = _compute_bin_width(start, end, budget.bins)
    low, high = _select_stretch(activity, steps.start, budget.events)
    chosen = np.flatnonzero((ops.start >= low) & (ops.end[:] <= high))
    ranges, left_out = ranges_of(activity.ranges, offset)
    threads = find_threads(activity)
    # An operation has about two calls: its launch, and an event, a query or an attribute. A million
    # operations and 1.5 million calls take at most 18 of the page's 20 MB, mostly 12.
    calls = draw_calls(activity, threads, (low, high), offset, 3 * budget.events // 2)
    host = HostRows(*calls, *draw_stacks(activity, stacks, offset))
    return RankPicture(
        rank=activity.rank,
        device=activity.device,
        start=start + offset,
        end=end + offset,
        width=width,
        first=(start + offset) // width,
        busy=_measure_busy(activity, threads, offset, width),
        exact_start=low + offset,
        exact_end=high + offset,
        events=_make_marks(activity, chosen, offset),
        ranges=ranges,
        ranges_left_out=left_out,
        host=host,
        steps_start=steps.start + offset,
        steps_end=steps.end + offset,
        total_events=len(ops.start),
    )


def _compute_bin_width(start: int, end: int, bins: int) -> int:
    """The shortest power of two (ns) that fits the number of bins, so that bins of all ranks
    align.
    """
    width = 1024
    while (end - start) // width >= max(bins, 64):
        width *= 2
    return width


def _measure_busy(
    activity: Activity, threads: Sequence[int], offset: int, width: int
) -> NDArray[np.uint8]:
    ops = activity.ops
    first = (int(ops.start[0]) + offset) // width
    last = (int(ops.end.max()) + offset) // width
    edges = np.arange(first, last + 2, dtype=np.int64) * width - offset
    lanes = [ops.union(*kinds).within(edges[:-1], edges[1:]) for kinds in _KINDS]
    lanes += measure_calls(activity, threads, edges)
    # Rounded up, so that even the shortest operation is visible.
    share: NDArray[np.uint8] = np.ceil(np.stack(lanes) * (255 / width)).astype(np.uint8)
    return share


def _select_stretch(activity: Activity, steps: IntArray, events: int) -> tuple[int, int]:
    """(start, end) in which operations are kept: everything, else whole steps from the middle one
    on.
    """
    ops = activity.ops
    if len(ops.start) <= events:
        return int(ops.start[0]), int(ops.end.max())
    edges = np.searchsorted(ops.start, steps) if len(steps) > 2 else np.empty(0, np.int64)
    middle = len(edges) // 2
    last = int(np.searchsorted(edges, edges[middle] + events, side="right")) - 1 if middle else 0
    if last > middle:
        return int(steps[middle]), int(ops.end[edges[middle] : edges[last]].max())
    low = (len(ops.start) - events) // 2
    return int(ops.start[low]), int(ops.end[low : low + events].max())


def _make_marks(activity: Activity, rows: IntArray, offset: int) -> Marks:
    ops = activity.ops
    name, codes = encode_column(ops.full_name[rows])
    lane = _LANE_OF[ops.kind[rows]]
    names = tuple(_OURS.get(int(code)) or activity.names[int(code)] for code in codes)
    start, end = ops.start[rows] + offset, ops.end[rows] + offset
    return Marks(start, end, name, lane, names)


def ranges_of(process: Ranges, offset: int) -> tuple[Marks, int]:
    """(marks, number left out) of the outer ranges on the thread with most ranges.

    Of many ranges the longest 6,000 are kept.
    """
    ranges = process.of_user()
    closed = np.flatnonzero(ranges.end != FOREVER)
    threads, counts = np.unique(ranges.thread[closed], return_counts=True)
    if not len(threads):
        return NO_MARKS, 0
    of_thread = closed[ranges.thread[closed] == threads[np.argmax(counts)]]
    depth, _ = nest_intervals(ranges.start[of_thread], ranges.end[of_thread])
    shallow = of_thread[depth < _DEEPEST]
    depth = depth[depth < _DEEPEST]
    longest = np.argsort(ranges.start[shallow] - ranges.end[shallow], kind="stable")
    kept_rows = np.sort(longest[:_MOST_RANGES])
    rows = shallow[kept_rows]
    name, codes = encode_column(ranges.name[rows])
    names = tuple(ranges.names[int(code)] for code in codes)
    times = (ranges.start[rows] + offset, ranges.end[rows] + offset)
    marks = Marks(*times, name, depth[kept_rows], names)
    return marks, len(closed) - len(rows)


def budget_of(reports: int, events: int, bins: int) -> Budget:
    """One report's share of what the whole page may hold."""
    return Budget(max(200, events // max(1, reports)), max(256, bins // max(1, reports)))


def join_pictures(parts: Sequence[Sequence[RankPicture]]) -> list[RankPicture]:
    """The pictures of all reports, in rank order."""
    return sorted(
        (picture for part in parts for picture in part),
        key=lambda picture: (picture.rank, picture.device),
    )
