"""Table range_gpu_sum: GPU work by the NVTX range open at its launch, autograd threads included."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import Activity, find_owners
from gpu_profile.analysis.activity.cached import activities_of, compute_share
from gpu_profile.analysis.activity.nvtx_ranges import FOREVER, NO_RANGE, Ranges, find_parents
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.intervals import NEVER, Intervals
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Cell, Column, Table

UNATTRIBUTED = "(no range)"
COLUMNS = (
    Column("Range"),
    Column("Instances"),
    Column("GPU Ops"),
    Column("Op Time", "ns"),
    Column("Busy", "ns"),
    Column("Self Busy", "ns"),
    Column("Span", "ns"),
    Column("Host", "ns"),
    Column("Share", "%"),
)


@dataclass(frozen=True)
class RangeTime:
    """Sums over the instances of one range name on one rank; times in ns."""

    name: str
    instances: int
    ops: int
    op_time: int
    busy: int
    self_busy: int
    span: int
    host: int


@dataclass(frozen=True)
class RankRanges:
    """The times of all range names of one rank, and the sum of all its GPU operations (ns)."""

    times: tuple[RangeTime, ...]
    op_time: int


def collect_ranges(database: Database, scope: Scope) -> list[RankRanges]:
    """The range times of every rank in one report."""
    return [_collect_rank(activity) for activity in activities_of(database, scope)]


def merge_ranges(parts: Sequence[Sequence[RankRanges]]) -> Table:
    """One row for each range name over all ranks, the most GPU time first.

    Op Time is the sum of the operations' durations, Busy the time in which any of them ran. Self
    Busy counts only operations without an inner range. Span is from the first start to the last
    end (which nsys projects). A nested range also counts for its outer ones. Operations launched
    from a thread without ranges of its own belong to the range open on the main thread.
    """
    sums: dict[str, IntArray] = {}
    ranks = list(chain.from_iterable(parts))
    for part in chain.from_iterable(rank.times for rank in ranks):
        numbers = (part.instances, part.ops, part.op_time, part.busy, part.self_busy, part.span)
        sums[part.name] = sums.get(part.name, 0) + np.array((*numbers, part.host))
    total = sum(rank.op_time for rank in ranks)
    rows = [(name, *row.tolist(), compute_share(int(row[2]), total)) for name, row in sums.items()]
    return Table("range_gpu_sum", COLUMNS, tuple(sorted(rows, key=_sort_key)))


def _sort_key(row: tuple[Cell, ...]) -> tuple[object, ...]:
    return (row[0] == UNATTRIBUTED, -int(row[3] or 0), str(row[0]))


def _collect_rank(activity: Activity) -> RankRanges:
    """The range times of one rank, domain by domain, because ranges nest only within a domain."""
    times: list[RangeTime] = []
    for domain in list_distinct(activity.ranges.domain):
        times += _collect_domain(activity, activity.ranges.of_domain(domain))
    free = np.flatnonzero(find_owners(activity, activity.ranges.of_user()) == NO_RANGE)
    busy = _measure_busy(activity, free)
    op_time = int(activity.ops.duration[free].sum())
    times.append(RangeTime(UNATTRIBUTED, 0, len(free), op_time, busy, busy, 0, 0))
    return RankRanges(tuple(times), int(activity.ops.duration.sum()))


def _collect_domain(activity: Activity, ranges: Ranges) -> Iterator[RangeTime]:
    """The range times of one domain. An operation counts for its innermost range and all outer
    ones.
    """
    owner, outer = find_owners(activity, ranges), find_parents(ranges)
    first, last = _find_edges(activity, owner, outer)
    for code in list_distinct(ranges.name):
        of_name = ranges.name == code
        spans = (last - first)[of_name & (last > NEVER)]
        if len(spans):
            with_inner = _with_inner(of_name, outer)
            inclusive = exclusive = np.flatnonzero(_select_places(with_inner, owner))
            if not np.array_equal(with_inner, of_name):
                exclusive = np.flatnonzero(_select_places(of_name, owner))
            instances = ranges.pick(np.flatnonzero(of_name))
            yield _measure_range(activity, instances, inclusive, exclusive, int(spans.sum()))


def _find_edges(activity: Activity, owner: IntArray, outer: IntArray) -> tuple[IntArray, IntArray]:
    """(first start, last end) of each range's operations; the end is NEVER for a range without
    any.
    """
    ops = activity.ops
    first = np.full(len(outer) + 1, FOREVER)  # the extra last cell is for NO_RANGE (-1)
    last = np.full(len(outer) + 1, NEVER)
    first[owner[::-1]] = ops.start[::-1]  # written in reverse, so the earliest start stays
    np.maximum.at(last, owner, ops.end[:])
    for rows in _list_inner_first(outer):
        np.minimum.at(first, outer[rows], first[rows])
        np.maximum.at(last, outer[rows], last[rows])
    return first[:-1], last[:-1]


def _list_inner_first(outer: IntArray) -> Iterator[IntArray]:
    """Yield the rows of the ranges that have an outer range, level by level, the deepest first."""
    depth, around = np.zeros(len(outer), np.int64), outer
    while np.any(around != NO_RANGE):
        depth += around != NO_RANGE
        around = np.append(outer, NO_RANGE)[around]
    for level in range(int(depth.max(initial=0)), 0, -1):
        yield np.flatnonzero(depth == level)


def _with_inner(of_name: NDArray[np.bool_], outer: IntArray) -> NDArray[np.bool_]:
    """A mask of these ranges and all ranges inside them."""
    includes_range = of_name
    while True:
        grown = of_name | _select_places(includes_range, outer)
        if np.array_equal(grown, includes_range):
            return includes_range
        includes_range = grown


def _select_places(chosen: NDArray[np.bool_], place: IntArray) -> NDArray[np.bool_]:
    """Whether the range at each index is chosen; False for NO_RANGE."""
    return np.append(chosen, False)[place]


def _measure_range(
    activity: Activity,
    instances: Ranges,
    inclusive: IntArray,
    exclusive: IntArray,
    span: int,
) -> RangeTime:
    """The times of one range name.

    `inclusive` are the rows of the operations in any instance, `exclusive` those
    without an inner range; the same array where no instance has one.
    """
    closed, busy = instances.end != FOREVER, _measure_busy(activity, inclusive)
    return RangeTime(
        name=instances.names[int(instances.name[0])],
        instances=len(instances.start),
        ops=len(inclusive),
        op_time=int(activity.ops.duration[inclusive].sum()),
        busy=busy,
        self_busy=busy if exclusive is inclusive else _measure_busy(activity, exclusive),
        span=span,
        host=int((instances.end - instances.start)[closed].sum()),
    )


def _measure_busy(activity: Activity, ops: IntArray) -> int:
    return Intervals.covered(activity.ops.start[ops], activity.ops.end[ops])


RANGE_GPU_SUM = Analysis(
    "range_gpu_sum",
    collect_ranges,
    merge_ranges,
    doc="GPU work by the NVTX range that was open when it was launched",
)
