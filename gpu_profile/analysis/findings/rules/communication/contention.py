"""Finding contention: kernels take longer beside communication than alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, Activity, Ops
from gpu_profile.analysis.arrays.columns import encode_column, narrow_column, order_codes
from gpu_profile.analysis.arrays.intervals import PART
from gpu_profile.analysis.arrays.types import IntArray, Places
from gpu_profile.analysis.findings.facts.windows import is_in_steady_part, list_windows
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.contention import remove_contention
from gpu_profile.analysis.store.database import Database

LEAST_LAUNCHES = 5
"""Runs of a kernel alone, and beside communication: fewer differ by chance."""
BESIDE = 0.98
"""The part of a kernel's time: beside communication for half of it, a kernel shows half of the
slowdown."""
MOST_SPREAD = 1.25
"""The 90th percentile over the 10th of the times of a kernel alone. Kernels of one name and grid
that differ by more multiply matrices of different depth, and cannot be compared."""
LEAST_STRETCH = 1.1
"""Matrix kernels of a DDP training on two H200s take 1.8 times as long beside communication."""
MOST_NAMES = 3
ADVICE = (
    "Give communication fewer SMs (NCCL_MAX_CTAS, NCCL_MAX_NCHANNELS), or less time beside the "
    "kernels that it slows most: larger buckets (bucket_cap_mb), fewer bytes, fewer prefetches."
)


@dataclass(frozen=True, eq=False)
class SlowedKernel:
    """A kernel of one name and grid: its launches beside communication by window, its median time
    (ns) beside it and alone, and the ns that all of them took longer.
    """

    name: str
    launches: IntArray
    beside: int
    alone: int
    longer: int


@dataclass(frozen=True, eq=False)
class Contention:
    """`longer`: by window, the ns that kernels took longer beside communication than alone.
    `kernels`: those with most of it.
    """

    longer: IntArray
    kernels: tuple[SlowedKernel, ...] = ()


@dataclass(frozen=True, eq=False)
class _Kernels:
    """Kernels of the steady part, sorted by shape (name and grid): `rows` of Ops, their time (ns),
    and the `part` of it that is beside communication, 0 to 1. `edges` are where a shape begins.
    """

    edges: IntArray
    rows: IntArray
    duration: IntArray
    part: NDArray[np.float64]


def collect_contention(activity: Activity, _database: Database) -> Contention:
    """What communication beside them costs the kernels of one rank."""
    windows, ops = list_windows(activity), activity.ops
    kernels, slowed = _list_kernels(activity), list[SlowedKernel]()
    begins, longer = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for first, behind in pairwise(kernels.edges.tolist()):
        duration, part = kernels.duration[first:behind], kernels.part[first:behind]
        times = _compare(duration, part)
        if times is None:
            continue
        start, beside = ops.start[kernels.rows[first:behind]], part > 0
        more = np.maximum(duration - times[1], 0) * beside
        begins.append(start[more > 0])
        longer.append(more[more > 0].astype(np.int64))
        name = activity.names[int(ops.name[kernels.rows[behind - 1]])]
        launches = windows.count(start[beside])
        slowed.append(SlowedKernel(name, launches, *times, int(more.sum())))
    slowed.sort(key=lambda kernel: (-kernel.longer, kernel.name))
    longer_by_window = windows.sum(np.concatenate(begins), np.concatenate(longer))
    return Contention(longer_by_window, tuple(slowed[:MOST_NAMES]))


def _list_kernels(activity: Activity) -> _Kernels:
    ops = activity.ops
    communication = ops.union(COMMUNICATION)
    rows = np.flatnonzero((ops.kind == COMPUTE) & is_in_steady_part(activity, ops.start))
    rows = narrow_column(rows if communication.total else rows[:0])
    shape, shapes = _number_shapes(ops, rows)
    part = np.zeros(len(rows))
    # Before the order by shape: times that rise are looked up in a third of the time.
    for first in range(0, len(rows), PART):
        kernels = rows[first : first + PART]
        start, length = ops.start[kernels], _measure(ops, kernels)
        touched = np.flatnonzero(communication.touches(start, start + length))
        start, length = start[touched], length[touched]
        part[first + touched] = communication.within(start, start + length) / length
    edges = np.r_[0, np.cumsum(np.bincount(shape, minlength=shapes))]
    order = order_codes(shape, shapes)
    del shape
    # Each column is freed when its copy is there.
    rows = rows[order]
    part = part[order]
    del order
    return _Kernels(edges, rows, narrow_column(_measure(ops, rows)), part)


def _measure(ops: Ops, rows: IntArray) -> IntArray:
    """The time of each of these operations, at least 1 ns."""
    return np.maximum(ops.length[rows].astype(np.int64), 1)


def _number_shapes(ops: Ops, rows: IntArray) -> tuple[Places, int]:
    """The number of each row's shape, ascending by grid and name, and how many there are."""
    names = np.int64(int(ops.full_name.max(initial=0)) + 1)
    numbers, codes = dict[int, int](), np.empty(len(rows), np.int32)
    for first in range(0, len(rows), PART):
        kernels = rows[first : first + PART]
        place, keys = encode_column(ops.grid[kernels] * names + ops.full_name[kernels])
        numbers_of_keys = [numbers.setdefault(key, len(numbers)) for key in keys.tolist()]
        codes[first : first + PART] = np.array(numbers_of_keys, np.int32)[place]
    ascending = np.empty(len(numbers), np.int32)
    ascending[np.argsort(np.array([*numbers], np.int64))] = np.arange(len(numbers))
    return ascending[codes], len(numbers)


def _compare(duration: IntArray, part: NDArray[np.float64]) -> tuple[int, int] | None:
    """The median times (ns) of a kernel beside communication and alone; None where they cannot be
    compared, or differ by less than LEAST_STRETCH.
    """
    alone, beside = duration[part == 0], duration[part > BESIDE]
    if min(len(alone), len(beside)) < LEAST_LAUNCHES:
        return None
    low, usual, high = np.quantile(alone, (0.1, 0.5, 0.9))
    slow = float(np.median(beside))
    if high > MOST_SPREAD * low or slow < LEAST_STRETCH * usual:
        return None
    return round(slow), round(float(usual))


def judge_contention(views: Sequence[View[Contention]]) -> Judgement:
    """Find ranks whose kernels take longer beside collectives that move data."""
    slow = [view for view in views if view.has_steps and view.is_costly(_measure_slowdown(view))]
    if not slow:
        return Judgement()
    ranks = tuple(sorted({view.rank for view in slow}))
    evidence = tuple(_list_evidence(max(slow, key=_measure_slowdown)))
    return Judgement((Finding("contention", ranks, "compute", evidence, ADVICE),))


def _measure_slowdown(view: View[Contention]) -> float:
    """What kernels take longer in a step beside collectives that move data.

    Beside a collective that waits for a late rank it is a cost of that rank.
    """
    return view.mean(view.fact.longer) / 1e6 * _find_moving_part(view)


def _find_moving_part(view: View[Contention]) -> float:
    """The part of the collectives' time in which they move data, all of it where nobody knows."""
    collectives, arrivals = view.states.collectives, view.split.arrivals
    rows = np.flatnonzero(arrivals.matched & (collectives.start >= view.start))
    length = collectives.end[rows] - collectives.start[rows]
    waits = np.clip(arrivals.last[rows] - collectives.start[rows], 0, length)
    return 1 - float(waits.sum() / length.sum()) if length.any() else 1.0


def _list_evidence(view: View[Contention]) -> Iterator[str]:
    longer, moving = view.mean(view.fact.longer) / 1e6, _measure_slowdown(view)
    yield (
        f"rank {view.rank}: kernels take {longer:.2f} of {view.step_ms:.2f} ms a step longer "
        f"beside communication than alone, {moving:.2f} ms of it while that moves data"
    )
    for kernel in view.fact.kernels:
        often = f"{view.mean(kernel.launches):.1f} times a step"
        yield (
            f"rank {view.rank}: {kernel.name}, {view.tell_rare(kernel.launches) or often} "
            f"beside communication: {kernel.beside / 1e3:.1f} us, alone {kernel.alone / 1e3:.1f} us"
        )


RULE = FindingRule(
    kind="contention",
    title="Compute slowed by communication",
    collect=collect_contention,
    judge=judge_contention,
    time_ms=lambda view, _: _measure_slowdown(view),
    edit=lambda _finding: remove_contention(),
    rows=(
        FindingRow(
            causes=("compute",),
            when=(
                "kernels take longer beside collectives that move data than the "
                "same kernels of the same grid take alone on that rank. Beside collectives that "
                "wait, it is a cost of the late rank"
            ),
        ),
    ),
)
