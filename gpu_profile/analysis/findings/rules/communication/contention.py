"""Finding contention: kernels take longer beside communication than alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.activity.start_up import steady_window
from gpu_profile.analysis.arrays.columns import (
    encode_column,
    list_distinct,
    narrow_column,
    order_codes,
)
from gpu_profile.analysis.arrays.intervals import PART
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.beside import ALONE, MOSTLY, mark_beside
from gpu_profile.analysis.findings.facts.windows import list_windows
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.contention import remove_contention
from gpu_profile.analysis.store.database import Database

LEAST_LAUNCHES = 5
"""Runs of a kernel alone, and beside communication: fewer differ by chance."""
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


def collect_contention(activity: Activity, _database: Database) -> Contention:
    """What communication beside them costs the kernels of one rank."""
    windows, ops, marks = list_windows(activity), activity.ops, mark_beside(activity)
    slowed = list[SlowedKernel]()
    begins, longer = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for rows in _group_kernels(activity) if marks.any() else ():
        duration, how_much = np.maximum(ops.length[rows].astype(np.int64), 1), marks[rows]
        times = _compare(duration, how_much)
        if times is None:
            continue
        start, beside = ops.start[rows], how_much > ALONE
        more = np.maximum(duration - times[1], 0) * beside
        begins.append(start[more > 0])
        longer.append(more[more > 0])
        name = activity.names[int(ops.name[rows[-1]])]
        launches = windows.count(start[beside])
        slowed.append(SlowedKernel(name, launches, *times, int(more.sum())))
    slowed.sort(key=lambda kernel: (-kernel.longer, kernel.name))
    longer_by_window = windows.sum(np.concatenate(begins), np.concatenate(longer))
    return Contention(longer_by_window, tuple(slowed[:MOST_NAMES]))


def _group_kernels(activity: Activity) -> Iterator[IntArray]:
    """The kernels of the steady part (rows of Ops), by shape: ascending by grid and name."""
    ops, pieces = activity.ops, dict[int, list[IntArray]]()
    grids = np.unique(ops.shapes[:, 0], return_inverse=True)[1]
    names = list_distinct(ops.full_name)
    begin, stop = np.searchsorted(ops.start, steady_window(activity)).tolist()
    for first in range(begin, stop, PART):
        part = slice(first, min(first + PART, stop))
        rows = narrow_column(first + np.flatnonzero(ops.kind[part] == COMPUTE))
        name = np.searchsorted(names, ops.full_name[rows])
        place, keys = encode_column(grids[ops.shape[rows]] * len(names) + name)
        order = order_codes(place, len(keys))
        cuts = np.cumsum(np.bincount(place, minlength=len(keys)))[:-1]
        for key, piece in zip(keys.tolist(), np.split(rows[order], cuts), strict=True):
            pieces.setdefault(key, []).append(piece)
    yield from (np.concatenate(pieces[key]) for key in sorted(pieces))


def _compare(duration: IntArray, how_much: NDArray[np.int8]) -> tuple[int, int] | None:
    """The median times (ns) of a kernel beside communication and alone; None where they cannot be
    compared, or differ by less than LEAST_STRETCH.
    """
    alone, beside = duration[how_much == ALONE], duration[how_much == MOSTLY]
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
    rows = np.flatnonzero(arrivals.is_matched & (collectives.start >= view.start))
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
