"""Finding contention: kernels take longer beside communication than alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, Activity, Ops
from gpu_profile.analysis.arrays.columns import encode_column, narrow_column, order_codes
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.windows import is_in_steady_part, list_windows
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.contention import remove_contention
from gpu_profile.analysis.store.database import Database

LEAST_LAUNCHES = 5
"""Of a kernel alone, and beside communication: fewer differ by chance."""
BESIDE = 0.98
MOST_SPREAD = 1.25
"""Of the times of a kernel alone, 90th percentile over 10th. Kernels of one name and grid that
differ by more multiply matrices of different depth, and cannot be compared."""
LEAST_STRETCH = 1.1
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
    """Kernels of the steady part, sorted by shape (name and grid); `part` is that beside
    communication, 0 to 1. `example`: by shape a row of Ops.
    """

    shape: IntArray
    example: IntArray
    start: IntArray
    duration: IntArray
    part: NDArray[np.float64]


def collect_contention(activity: Activity, _database: Database) -> Contention:
    """What communication beside them costs the kernels of one rank."""
    windows = list_windows(activity)
    kernels = _list_kernels(activity)
    edges = np.r_[np.flatnonzero(np.diff(kernels.shape, prepend=-1)), len(kernels.shape)]
    longer, slowed = np.zeros(len(kernels.shape), np.int64), list[SlowedKernel]()
    for first, behind in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        shape = slice(first, behind)
        times = _compare(kernels.duration[shape], kernels.part[shape])
        if times is None:
            continue
        more = np.maximum(kernels.duration[shape] - times[1], 0) * (kernels.part[shape] > 0)
        longer[shape] = more
        row = kernels.example[kernels.shape[first]]
        name = activity.names[int(activity.ops.name[row])]
        launches = windows.count(kernels.start[shape][kernels.part[shape] > 0])
        slowed.append(SlowedKernel(name, launches, *times, int(more.sum())))
    slowed.sort(key=lambda kernel: (-kernel.longer, kernel.name))
    some = np.flatnonzero(longer)
    longer_by_window = windows.sum(kernels.start[some], longer[some])
    return Contention(longer_by_window, tuple(slowed[:MOST_NAMES]))


def _list_kernels(activity: Activity) -> _Kernels:
    ops = activity.ops
    communication = ops.union(COMMUNICATION)
    rows = np.flatnonzero((ops.kind == COMPUTE) & is_in_steady_part(activity, ops.start))
    if not communication.total:
        rows = rows[:0]
    shape, example = _number_shapes(ops, rows)
    start, end = ops.start[rows], ops.end[rows]
    del rows
    np.maximum(end, start + 1, out=end)
    # Before the order by shape: times that rise are looked up in a third of the time.
    touched = np.flatnonzero(communication.touches(start, end))
    duration = narrow_column(end - start)
    del end
    part = np.zeros(len(start))
    begin, length = start[touched], duration[touched]
    part[touched] = communication.within(begin, begin + length) / length
    del begin, length, touched
    order = order_codes(shape, len(example))
    # Each column is freed when its copy is there: 40 of 70 MB of a million kernels.
    shape = shape[order]
    start = start[order]
    duration = duration[order]
    part = part[order]
    return _Kernels(shape, example, start, duration, part)


def _number_shapes(ops: Ops, rows: IntArray) -> tuple[IntArray, IntArray]:
    """The shape of each row, and by shape one of the operations that have it."""
    key = ops.grid[rows] * np.int64(int(ops.full_name.max(initial=0)) + 1)
    key += ops.full_name[rows]
    shape, shapes = encode_column(key)
    example = np.zeros(len(shapes), np.int64)
    example[shape] = rows
    return narrow_column(shape), example


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
    slow = [view for view in views if view.has_steps and view.is_costly(_longer_ms(view))]
    if not slow:
        return Judgement()
    ranks = tuple(sorted({view.rank for view in slow}))
    evidence = tuple(_list_evidence(max(slow, key=_longer_ms)))
    return Judgement((Finding("contention", ranks, "compute", evidence, ADVICE),))


def _longer_ms(view: View[Contention]) -> float:
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
    longer, moving = view.mean(view.fact.longer) / 1e6, _longer_ms(view)
    yield (
        f"rank {view.rank}: kernels take {longer:.2f} of {view.step_ms:.2f} ms a step longer "
        f"beside communication than alone, {moving:.2f} ms of it while that moves data"
    )
    for kernel in view.fact.kernels:
        yield (
            f"rank {view.rank}: {kernel.name}, {view.mean(kernel.launches):.1f} times a step "
            f"beside communication: {kernel.beside / 1e3:.1f} us, alone {kernel.alone / 1e3:.1f} us"
        )


RULE = FindingRule(
    kind="contention",
    title="Compute slowed by communication",
    collect=collect_contention,
    judge=judge_contention,
    time_ms=lambda view, _: _longer_ms(view),
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
