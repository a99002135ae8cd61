"""Find the ranks that others wait for in collectives, and how long and how often they do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.comm.lanes import UNMATCHED
from gpu_profile.analysis.activity.steps.common_steps import CAP_QUANTILE
from gpu_profile.analysis.arrays.periods import Period, find_period
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.view import RankView, View
from gpu_profile.analysis.tables.comm_kernels import KINDS, SYMMETRIC_KINDS

_SYMMETRIC = np.array([kind in SYMMETRIC_KINDS for kind in KINDS])
# With n ranks each one is last in 1/n of the cases by chance. A straggler must be last in at least
# 1/n + 0.6 * (1 - 1/n) of them, by waiting time and by steps: for 4 ranks 70 %.
CONSTANCY = 0.6
# A kernel takes up to 1.8 times as long beside a waiting collective (measured on H200). So waiting
# is blamed for at most this part of the time in which both ran.
CONTENTION_MOST = 0.5

ModuleTimes = Mapping[str, int]
"""ns a step of kernels without concurrent communication by module, layers folded ("h.*.attn")"""
StragglerView: TypeAlias = "View[ModuleTimes]"


@dataclass(frozen=True, eq=False)
class Waits:
    """Collectives of one communicator in the steady steps: rows are `views`, columns are
    collectives.

    `step` is the step of each column. `weight` scales down the columns of a step whose total wait
    exceeds the 90th percentile, so that one slow step does not look like a trend.
    """

    views: tuple[StragglerView, ...]
    start: IntArray
    step: IntArray
    weight: NDArray[np.float64]

    @property
    def wait(self) -> IntArray:
        return np.asarray(self.start.max(axis=0) - self.start, np.int64)


@dataclass(frozen=True, eq=False)
class Suspects:
    """The `late_ranks` ranks of a communicator, and the `others` that wait for them.

    `late_ms` is by how much they come later than the others, the sum of a step. The late ranks came
    last in `last` of `total` collectives. `worst` is the largest delay: (ms after the others, ns at
    which it happened). `period`: that they are late in each n-th step alone, None where they are
    not, or in each.
    """

    late_ranks: tuple[StragglerView, ...]
    others: tuple[StragglerView, ...]
    late_ms: float
    last: int
    total: int
    worst: tuple[float, int]
    period: Period | None = None


def list_communicators(views: Sequence[StragglerView]) -> list[Waits]:
    """The communicators with at least two ranks and symmetric collectives in steady steps."""
    numbers = {int(n) for view in views for n in np.unique(view.split.arrivals.group)}
    groups_waited = []
    for number in sorted(numbers - {UNMATCHED}):
        members = tuple(v for v in views if np.any(v.split.arrivals.group == number))
        waits = _measure_waits(members, number) if len(members) > 1 else None
        if waits is not None:
            groups_waited.append(waits)
    return groups_waited


def _measure_waits(members: tuple[StragglerView, ...], number: int) -> Waits | None:
    begin = max(view.start for view in members)
    columns = []
    for view in members:
        collectives, arrivals = view.states.collectives, view.split.arrivals
        chosen = (
            (arrivals.group == number) & _SYMMETRIC[collectives.kind] & (arrivals.last >= begin)
        )
        columns.append(collectives.start[chosen])
    if not len(columns[0]) or len({len(column) for column in columns}) > 1:
        return None
    start = np.stack(columns)
    view = members[0]
    edges = view.states.start[1:]
    arrived = start.max(axis=0)
    step = np.searchsorted(edges, arrived) if view.has_steps else np.arange(len(arrived))
    _, number_of = np.unique(step, return_inverse=True)
    return Waits(members, start, number_of, _compute_weights(start, number_of))


def _compute_weights(start: IntArray, step: IntArray) -> NDArray[np.float64]:
    """A weight for each collective, below 1 in steps with outlying waits (see Waits)."""
    wait = (start.max(axis=0) - start).sum(axis=0)
    sums = np.bincount(step, weights=wait)
    # "lower" is the sum of a step; between two steps the outlier itself would raise the cap.
    cap = np.quantile(sums, CAP_QUANTILE, method="lower")
    return np.asarray(np.minimum(1.0, cap / np.maximum(sums, 1.0))[step])


def suspects_of(waits: Waits) -> Suspects | None:
    """The ranks (at most half) that wait least, if they are late by enough time and in enough
    steps, or in each n-th step; else None.
    """
    wait, views = waits.wait, waits.views
    mean = (wait * waits.weight).mean(axis=1)
    order = np.argsort(mean, kind="stable")
    # Up to half of the ranks: more late ones than others would be the usual ones.
    jumps = np.diff(mean[order])[: len(views) // 2]
    count = int(np.argmax(jumps)) + 1
    late, others = order[:count], order[count:]
    suspects = _compare_arrivals(waits, late, others)
    is_last = _measure_lead(waits, late, others) > 0
    by_time, by_step = _compute_constancy(waits, is_last, count / len(views))
    if by_time < CONSTANCY or (by_step < CONSTANCY and suspects.period is None):
        return None
    return suspects if suspects.late_ms >= find_least_ms(views) else None


def keep_late(waits: Waits, suspects: Suspects, kept: Sequence[RankView]) -> Suspects:
    """The same suspects with only these late ranks, against the same others."""
    numbers = [
        np.array([row for row, view in enumerate(waits.views) if view in side])
        for side in (kept, suspects.others)
    ]
    return _compare_arrivals(waits, *numbers)


def _measure_lead(waits: Waits, late: IntArray, others: IntArray) -> IntArray:
    """For each collective, how long (ns) the others were there before the late ranks."""
    return np.asarray(waits.start[late].max(axis=0) - waits.start[others].max(axis=0), np.int64)


def _compare_arrivals(waits: Waits, late: IntArray, others: IntArray) -> Suspects:
    ahead = _measure_lead(waits, late, others)
    worst = int(np.argmax(ahead * waits.weight))
    late_views, other_views = (tuple(waits.views[row] for row in side) for side in (late, others))
    lateness = float((np.maximum(ahead, 0) * waits.weight).sum()) / other_views[0].steps / 1e6
    place = (float(ahead[worst]) / 1e6, int(waits.start[:, worst].max()))
    last = int((ahead > 0).sum())
    by_step = np.bincount(waits.step, np.maximum(ahead, 0)).astype(np.int64)
    period = find_period(by_step, other_views[0].least_delay)
    return Suspects(late_views, other_views, lateness, last, len(ahead), place, period)


def find_least_ms(views: Sequence[RankView]) -> float:
    """The least time (ms) in a step that is told of these ranks."""
    return float(np.median([view.least_ms for view in views]))


def _compute_constancy(waits: Waits, last: NDArray[np.bool_], chance: float) -> tuple[float, float]:
    """How constantly the same ranks come last: 0 as by chance, 1 always.

    It is a share of the waiting time, and one of the steps (the longest wait of each step).
    """
    waited = waits.wait.sum(axis=0).astype(np.float64)
    weight = waited * waits.weight
    if not weight.any():
        return 0.0, 0.0
    by_time = float(weight[last].sum() / weight.sum())
    order = np.lexsort((-waited, waits.step))
    most = order[np.r_[True, np.diff(waits.step[order]) != 0]]
    by_step = float(np.mean(last[most]))
    return (by_time - chance) / (1 - chance), (by_step - chance) / (1 - chance)


def contention_ms(view: RankView, free: RankView) -> float:
    """How many ms longer a step's kernels take beside collectives, against a rank that does not
    wait.

    This is what waiting costs although compute hides it.
    """
    extra = 0.0
    for name, time in view.common.kernels.items():
        other = free.common.kernels.get(name)
        count = time.count - time.alone_count
        if other and count:
            usual = count * other.total / other.count
            extra += max(0.0, time.total - time.alone_total - usual)
    times = view.states.times
    compute_ns = max(int(times["compute"][0]), 1)
    share = view.mean(times["compute"]) / compute_ns
    return min(extra * share, CONTENTION_MOST * view.mean(times["hidden"])) / 1e6


def measure_lost_time(view: RankView) -> float:
    """The most (ms) that waiting for late ranks costs a rank in a step: all of it where it does not
    compute meanwhile, else by how much waiting collectives slow what it computes.
    """
    collectives, arrivals = view.states.collectives, view.split.arrivals
    rows = np.flatnonzero(arrivals.is_matched & (collectives.start >= view.start))
    start, end = collectives.start[rows], collectives.end[rows]
    waits = float((np.clip(arrivals.last[rows], start, end) - start).sum()) / view.steps / 1e6
    exposed = view.ms("wait")
    return exposed + CONTENTION_MOST * max(waits - exposed, 0.0)
