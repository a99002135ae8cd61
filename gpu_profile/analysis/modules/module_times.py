"""The GPU time of each module of one rank, in the steady steps."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, Activity
from gpu_profile.analysis.activity.idle.gaps import LATENCY, QUEUED, Gaps, find_gaps
from gpu_profile.analysis.activity.steps.common_steps import first_steady
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.columns import is_among
from gpu_profile.analysis.arrays.intervals import FOREVER
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.modules.marks import FORWARD, Module, fold_module, load_marks
from gpu_profile.analysis.modules.owners import Owners, find_op_owners, find_owners_at


@dataclass(frozen=True)
class ModuleTime:
    """The sums of one module; times in ns.

    `calls` counts its forwards. The time of its kernels is in `forward`, `backward`, `accumulate`
    (of its parameters' gradients), `optimizer`, `communication` or `unattributed`; a kernel is in
    one of them. `exposed` is communication
    without compute at the same time, `idle` the GPU's idle time while the host was in the module.
    """

    module: Module
    calls: int = 0
    forward: int = 0
    backward: int = 0
    accumulate: int = 0
    optimizer: int = 0
    communication: int = 0
    unattributed: int = 0
    exposed: int = 0
    idle: int = 0

    @property
    def kernel_time(self) -> int:
        works = (self.forward, self.backward, self.accumulate, self.optimizer)
        return sum(works) + self.communication + self.unattributed

    @property
    def is_worth_a_row(self) -> bool:
        """Whether anything was measured of it; a module that only holds others may have nothing."""
        return bool(self.kernel_time or self.idle)


NUMBERS = tuple(field.name for field in fields(ModuleTime))[1:]


@dataclass(frozen=True)
class RankModules:
    """The modules of one rank. `kernel_time` (ns) is that of all its kernels in the steady steps;
    the modules' times add up to it.
    """

    rank: int
    steps: int
    kernel_time: int
    times: tuple[ModuleTime, ...]


def measure_modules(activity: Activity) -> RankModules | None:
    """The times of one rank's modules; None if it was recorded without --annotate modules."""
    owners, marks = find_op_owners(activity), load_marks(activity.ranges)
    if owners is None or marks is None or not marks.has_modules:
        return None
    sums: dict[Module, dict[str, int]] = {}
    for module, number, value in (
        *_list_kernel_times(activity, owners),
        *_list_idle_times(activity),
        *_list_calls(activity),
    ):
        row = sums.setdefault(module, dict.fromkeys(NUMBERS, 0))
        row[number] += value
    times = tuple(ModuleTime(module, **row) for module, row in sums.items())
    kernels = find_steady_kernels(activity)
    total = int(activity.ops.duration[kernels].sum())
    assert sum(time.kernel_time for time in times) == total, "each kernel has one owner"
    steps = count_steady_steps(activity)
    return RankModules(activity.rank, steps, total, times)


def find_steady_kernels(activity: Activity) -> IntArray:
    """The rows of the kernels (collectives too) that began in the steady steps.

    A collective that lasts beyond them is left out: it waits for what was not recorded.
    """
    ops, steps = activity.ops, find_steps(activity)
    last = int(steps.end[-1]) if len(steps) else FOREVER
    kernel = (ops.kind == COMPUTE) | ((ops.kind == COMMUNICATION) & (ops.end[:] <= last))
    return np.flatnonzero(kernel & is_steady(activity, ops.start))


def _list_kernel_times(activity: Activity, owners: Owners) -> Iterator[tuple[Module, str, int]]:
    """(module, field of ModuleTime, ns) of each owner."""
    rows, ops = find_steady_kernels(activity), activity.ops
    code, start, end = owners.of_op[rows], ops.start[rows], ops.end[rows]
    communicates = ops.kind[rows] == COMMUNICATION
    hidden = ops.union(COMPUTE).within(start, end)
    time = _sum_by(code, end - start, len(owners.owners))
    exposed = _sum_by(code[communicates], (end - start - hidden)[communicates], len(owners.owners))
    for owner, ns, bare in zip(owners.owners, time, exposed, strict=True):
        if ns:
            yield owner.module, owner.work, ns
        if bare:
            yield owner.module, "exposed", bare


def sum_by_module(activity: Activity, rows: IntArray, value: IntArray) -> dict[str, int]:
    """The sum of a value of operations by module, with layers folded into one ("h.*.attn"); empty
    without marks of modules.
    """
    owners = find_op_owners(activity)
    if owners is None:
        return {}
    sums: dict[str, int] = {}
    totals = _sum_by(owners.of_op[rows], value, len(owners.owners))
    for owner, total in zip(owners.owners, totals, strict=True):
        if owner.module.is_real and total:
            name = fold_module(owner.module)
            sums[name] = sums.get(name, 0) + total
    return sums


def _list_idle_times(activity: Activity) -> Iterator[tuple[Module, str, int]]:
    """(module, "idle", ns) of each gap's owner."""
    gaps = find_gaps(activity)
    owners = find_gap_owners(activity, gaps)
    if owners is None:
        return
    steady = is_steady(activity, gaps.start)
    time = _sum_by(owners.of_op[steady], (gaps.end - gaps.start)[steady], len(owners.owners))
    for owner, ns in zip(owners.owners, time, strict=True):
        if ns:
            yield owner.module, "idle", ns


def find_gap_owners(activity: Activity, gaps: Gaps) -> Owners | None:
    """The owner of each idle gap: what the host did in the middle of it, up to the launch that
    ended it. A gap before an operation that was launched in time belongs to that operation's
    launch. None without marks.
    """
    if load_marks(activity.ranges) is None:
        return None
    launched = activity.launch_starts[gaps.next_op]
    in_time = is_among(gaps.cause, (QUEUED, LATENCY)) | (launched <= gaps.start)
    middle = (gaps.start + launched) // 2
    return find_owners_at(
        activity, activity.launcher_of(gaps.next_op), np.where(in_time, launched, middle)
    )


def _list_calls(activity: Activity) -> Iterator[tuple[Module, str, int]]:
    """(module, "calls", count) of the forwards in the steady steps."""
    marks = load_marks(activity.ranges)
    if marks is None:
        return
    inside = is_steady_on_host(activity, marks.ranges.start)
    counts = np.bincount(marks.ranges.name[inside], minlength=len(marks.by_name)).tolist()
    for mark, count in zip(marks.by_name, counts, strict=True):
        if count and mark.module.name and mark.phase in (FORWARD, "optimizer"):
            yield mark.module, "calls", count


def is_steady(activity: Activity, time: IntArray) -> NDArray[np.bool_]:
    """Whether these times on the GPU (ns) are in a steady step, as step_sum counts them for one
    rank; all are without steps.

    An evaluation between two steps is in none.
    """
    steps, drop = find_steps(activity), _count_warm_up(activity)
    return _are_inside(time, steps.start[drop:], steps.end[drop:])


def is_steady_on_host(activity: Activity, time: IntArray) -> NDArray[np.bool_]:
    """Whether the host issued what it did at these times (ns) for a steady step."""
    steps, drop = find_steps(activity), _count_warm_up(activity)
    apart = np.r_[steps.end[:-1] < steps.start[1:], True][: len(steps)]
    end = np.where(apart, steps.host_end, np.r_[steps.host_start[1:], FOREVER][: len(steps)])
    return _are_inside(time, steps.host_start[drop:], end[drop:])


def _are_inside(time: IntArray, start: IntArray, end: IntArray) -> NDArray[np.bool_]:
    if not len(start):
        return np.ones(len(time), bool)
    place = np.searchsorted(start, time, "right") - 1
    return np.asarray((place >= 0) & (time < end[place]))


def count_steady_steps(activity: Activity) -> int:
    """The number of steps in the steady part; 0 without steps."""
    return len(find_steps(activity)) - _count_warm_up(activity)


def _count_warm_up(activity: Activity) -> int:
    steps = find_steps(activity)
    return first_steady(steps.end - steps.start)


def _sum_by(code: IntArray, value: IntArray | NDArray[np.int64], size: int) -> list[int]:
    """The exact sum of the values of each code."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, code, value)
    result: list[int] = sums.tolist()
    return result
