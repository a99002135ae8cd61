"""GPU work by the NVTX range that was open when it was launched, autograd threads included."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from gpu_profile.analysis.activity import Activity, owners
from gpu_profile.analysis.analysis import Analysis, Scope
from gpu_profile.analysis.database import Database
from gpu_profile.analysis.host_ranges import FOREVER, NO_RANGE, Ranges, parents
from gpu_profile.analysis.intervals import Intervals
from gpu_profile.analysis.schema import IntArray
from gpu_profile.analysis.shared import activities_of, share
from gpu_profile.analysis.table import Cell, Column, Table

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
    """One name on one rank; times in ns, sums over its instances."""

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
    """All range names of one rank, and the time of all its GPU operations."""

    times: tuple[RangeTime, ...]
    op_time: int


def partial(database: Database, scope: Scope) -> list[RankRanges]:
    """Every range name of every rank of one report."""
    return [_rank(activity) for activity in activities_of(database, scope)]


def merge(parts: Sequence[Sequence[RankRanges]]) -> Table:
    """One row a name over all ranks, the most GPU time first.

    Op Time sums the operations' durations, Busy counts the time in which any ran, Self Busy only
    operations without an inner range, Span is first start to last end (what nsys projects).
    A nested range counts for its outer ones too. Operations launched from a thread without
    ranges of its own belong to the range open on the main thread.
    """
    sums: dict[str, IntArray] = {}
    ranks = list(chain.from_iterable(parts))
    for part in chain.from_iterable(rank.times for rank in ranks):
        numbers = (part.instances, part.ops, part.op_time, part.busy, part.self_busy, part.span)
        sums[part.name] = sums.get(part.name, 0) + np.array((*numbers, part.host))
    whole = sum(rank.op_time for rank in ranks)
    rows = [(name, *row.tolist(), share(int(row[2]), whole)) for name, row in sums.items()]
    return Table("range_gpu_sum", COLUMNS, tuple(sorted(rows, key=_order)))


def _order(row: tuple[Cell, ...]) -> tuple[object, ...]:
    return (row[0] == UNATTRIBUTED, -int(row[3] or 0), str(row[0]))


def _rank(activity: Activity) -> RankRanges:
    """Domains are looked at one by one: ranges nest within a domain, not across."""
    times: list[RangeTime] = []
    for domain in np.unique(activity.ranges.domain):
        ranges = activity.ranges.pick(np.flatnonzero(activity.ranges.domain == domain))
        times += _domain(activity, ranges)
    free = np.flatnonzero(owners(activity, activity.ranges.of_user()) == NO_RANGE)
    busy = _busy(activity, free)
    op_time = int(activity.ops.duration[free].sum())
    times.append(RangeTime(UNATTRIBUTED, 0, len(free), op_time, busy, busy, 0, 0))
    return RankRanges(tuple(times), int(activity.ops.duration.sum()))


def _domain(activity: Activity, ranges: Ranges) -> Iterator[RangeTime]:
    """Operations go to their innermost range, then to each one around it, level by level."""
    owner, outer = owners(activity, ranges), parents(ranges)
    found: dict[int, list[tuple[IntArray, IntArray]]] = {}
    level = owner
    while np.any(level != NO_RANGE):
        ops = np.flatnonzero(level != NO_RANGE)
        codes = ranges.name[level[ops]]
        for code in np.unique(codes):
            mine = ops[codes == code]
            found.setdefault(int(code), []).append((mine, level[mine]))
        level = np.where(level == NO_RANGE, NO_RANGE, outer[level])
    for code, hits in found.items():
        ops, inside = (np.concatenate(column) for column in zip(*hits, strict=True))
        own = np.flatnonzero((owner != NO_RANGE) & (ranges.name[owner] == code))
        yield _time(activity, ranges.called(ranges.names[code]), ops, inside, own)


def _time(
    activity: Activity, instances: Ranges, ops: IntArray, inside: IntArray, own: IntArray
) -> RangeTime:
    """`inside` is the instance of each of `ops`; `own` are those without an inner range."""
    hit = np.zeros(len(activity.ops.start), bool)
    hit[ops] = True
    once = np.flatnonzero(hit)
    order = np.argsort(inside, kind="stable")
    first = np.flatnonzero(np.r_[True, np.diff(inside[order]) != 0])
    start = np.minimum.reduceat(activity.ops.start[ops[order]], first)
    end = np.maximum.reduceat(activity.ops.end[ops[order]], first)
    closed = instances.end != FOREVER
    return RangeTime(
        name=instances.names[int(instances.name[0])],
        instances=len(instances.start),
        ops=len(once),
        op_time=int(activity.ops.duration[once].sum()),
        busy=_busy(activity, once),
        self_busy=_busy(activity, own),
        span=int((end - start).sum()),
        host=int((instances.end - instances.start)[closed].sum()),
    )


def _busy(activity: Activity, ops: IntArray) -> int:
    return Intervals.union(activity.ops.start[ops], activity.ops.end[ops]).total


RANGE_GPU_SUM = Analysis("range_gpu_sum", partial, merge)
