"""The facts of one rank that three or more rules read; small and picklable.

What one rule reads is that rule's own (`collect` of FindingRule).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, Activity
from gpu_profile.analysis.activity.health import Health, rank_health
from gpu_profile.analysis.activity.serving.budget import Budget, measure_budget
from gpu_profile.analysis.activity.start_up import find_start_up_with_compilations
from gpu_profile.analysis.activity.states import RankStates, rank_states
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.columns import encode_column
from gpu_profile.analysis.arrays.intervals import PART
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.beside import ALONE, mark_beside
from gpu_profile.analysis.findings.facts.host_times import HostTimes, measure_host_times
from gpu_profile.analysis.findings.facts.idle_facts import IdleFacts, collect_idle_facts
from gpu_profile.analysis.findings.facts.windows import is_in_steady_part, list_windows
from gpu_profile.analysis.host.compilations import find_compilations
from gpu_profile.analysis.host.work import HostRecord


@dataclass(frozen=True)
class KernelTime:
    """Launches and ns of one kernel name in the steady part, the sum of its steps.

    `alone_*`: of the launches without concurrent communication.
    """

    count: int
    total: int
    alone_count: int
    alone_total: int


@dataclass(frozen=True, eq=False)
class CommonFacts:
    """The facts of one rank. Arrays are by window: the steady part, then each step.

    `kernels` by name; `kernel_count` by window; `idle` by cause; `budget` of iterations.
    """

    states: RankStates
    kernels: Mapping[str, KernelTime]
    kernel_count: IntArray
    host_times: HostTimes
    idle: IdleFacts
    host: str
    health: Health
    budget: Budget | None = None


def collect_common_facts(
    activity: Activity, offset_ns: int, report: str, record: HostRecord
) -> CommonFacts:
    """The facts of one rank of a `report`; `offset_ns` moves its times to the run's clock."""
    ops = activity.ops
    steps = find_steps(activity)
    is_kernel = (ops.kind == COMPUTE) | (ops.kind == COMMUNICATION)
    return CommonFacts(
        states=_collect_states(activity, offset_ns, record),
        kernels=_sum_kernels(activity),
        kernel_count=list_windows(activity).count(ops.start[is_kernel]),
        host_times=measure_host_times(activity, steps),
        idle=collect_idle_facts(activity, offset_ns, record),
        host=activity.host,
        health=rank_health(activity, report),
        budget=measure_budget(activity) if steps.are_iterations else None,
    )


def _collect_states(activity: Activity, offset_ns: int, record: HostRecord) -> RankStates:
    """The rank's states, with the compilations of its start-up that samples show."""
    states = rank_states(activity, offset_ns)
    compilations = find_compilations(record.stacks, activity.calls.threads)
    if not compilations.total:
        return states
    return replace(states, start_up=find_start_up_with_compilations(activity, compilations))


def _sum_kernels(activity: Activity) -> dict[str, KernelTime]:
    ops, beside = activity.ops, mark_beside(activity)
    chosen = (ops.kind == COMPUTE) & is_in_steady_part(activity, ops.start)
    sums: dict[int, IntArray] = {}
    for first in range(0, len(chosen), PART):
        rows = first + np.flatnonzero(chosen[first : first + PART])
        length = ops.length[rows].astype(np.int64)
        undisturbed = (beside[rows] == ALONE) | (length == 0)
        place, names = encode_column(ops.name[rows])
        weights = (None, length, undisturbed, length * undisturbed)
        # Exact: bincount sums in float64, whole numbers up to 2^53 ns, which is 104 days.
        parts = [np.bincount(place, weights=w, minlength=len(names)) for w in weights]
        for name, row in zip(names.tolist(), np.stack(parts, 1).astype(np.int64), strict=True):
            sums[name] = sums.get(name, 0) + row
    return {activity.names[name]: KernelTime(*sums[name].tolist()) for name in sorted(sums)}
