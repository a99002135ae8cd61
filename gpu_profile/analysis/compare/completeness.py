"""What tells whether the data of one rank is complete: the input of lost_data.py."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COPY, Activity, Ops
from gpu_profile.analysis.activity.health import Extent, rank_health
from gpu_profile.analysis.activity.start_up import find_start_up, steady_window
from gpu_profile.analysis.activity.steps.place_on_gpu import step_of
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.arrays.types import IntArray

LAUNCHES = re.compile(r"(cuda|cu)(Launch(Cooperative)?Kernel|GraphLaunch)")


@dataclass(frozen=True, eq=False)
class Completeness:
    """What tells whether a rank's data is complete.

    `losses` are the health's, `warnings` what nsys says of lost events. `launches`: calls that
    launched kernels or graphs, by step (one column without steps). `has_calls` as in Health.
    `repeated_kernels`: the number of kernels that the report holds a second time.
    """

    losses: tuple[str, ...]
    warnings: tuple[str, ...]
    has_calls: bool
    extent: Extent
    launches: IntArray
    repeated_kernels: int = 0


def measure_completeness(
    activity: Activity,
    steps: Steps,
    kernels: Mapping[str, tuple[IntArray, IntArray]],
    warnings: tuple[str, ...],
) -> Completeness:
    """Return what tells whether a rank lost data. `kernels`: (launches, ns) by name and step."""
    health, (first, last) = rank_health(activity, ""), steady_window(activity)
    counts = sum((count for count, _ in kernels.values()), np.zeros(len(steps) or 1, np.int64))
    extent = Extent(
        rank=activity.rank,
        steps=len(steps),
        span=last - first,
        kernels=float(np.mean(counts)),
        has_start_up=find_start_up(activity) is not None,
    )
    launches, losses = _count_launches(activity, steps), health.list_losses()
    repeated = _count_repeated(activity.ops)
    return Completeness(losses, warnings, health.has_calls, extent, launches, repeated)


def _count_repeated(ops: Ops) -> int:
    """Return how many kernels begin when another one of their stream does.

    A stream runs one kernel at a time, so such a row is a copy of the other.
    """
    rows = np.flatnonzero((ops.kind != COPY) & (ops.length > 0))
    same_start = np.diff(ops.start[rows]) == 0
    rows = rows[np.r_[same_start, False] | np.r_[False, same_start]] if len(rows) else rows
    places = np.unique(np.stack((ops.start[rows], ops.stream[rows]), axis=1), axis=0)
    return len(rows) - len(places)


def _count_launches(activity: Activity, steps: Steps) -> IntArray:
    """The calls that launch kernels or graphs by step; in one column without steps."""
    calls = activity.calls
    start = calls.start[calls.match_names(activity.names, LAUNCHES)]
    if not len(steps):
        return np.array([len(start)])
    step = step_of(start, steps.host_start, steps.host_end)
    return np.bincount(step[step >= 0], minlength=len(steps))
