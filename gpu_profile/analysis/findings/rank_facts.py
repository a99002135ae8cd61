"""The facts of one rank that findings need: sums by window, small and picklable.

The windows are those of RankStates: the steady part, then each step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, COPY, Activity
from gpu_profile.analysis.activity.health import Health, rank_health
from gpu_profile.analysis.activity.idle import (
    LATENCY,
    LAUNCH,
    STAGED_BYTES,
    blocking_calls,
    find_gaps,
    sync_shadow,
)
from gpu_profile.analysis.activity.start_up import (
    find_start_up_with_compilations,
    steady_window,
)
from gpu_profile.analysis.activity.states import RankStates, rank_states
from gpu_profile.analysis.activity.steps import Steps, find_steps
from gpu_profile.analysis.arrays.columns import encode_column, is_among, is_rising, list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.counters.gpu_use import NO_USE, GpuUse
from gpu_profile.analysis.findings.host_times import HostTimes, measure_host_times
from gpu_profile.analysis.host.blocking_names import name_blocking_calls
from gpu_profile.analysis.host.compilations import find_compilations
from gpu_profile.analysis.host.work import HostRecord, HostWork, host_work
from gpu_profile.analysis.modules.gap_places import GapPlace, find_gap_places
from gpu_profile.analysis.modules.marks import load_marks
from gpu_profile.analysis.modules.module_times import sum_by_module

# A shorter kernel takes less time on the GPU than its launch takes on the host.
TINY_NS = 5_000

Key = tuple[int, bool]
NO_RECORD = HostRecord()


@dataclass(frozen=True)
class KernelTime:
    """Count and ns of one kernel name; `alone_*` for the launches without concurrent
    communication.
    """

    count: int
    total: int
    alone_count: int
    alone_total: int


@dataclass(frozen=True, eq=False)
class CopyTime:
    """Transfers above STAGED_BYTES of one direction and memory kind, by window.

    `rate` is their median in GB/s; `exposed` is their time (ns) without concurrent compute.
    """

    count: IntArray
    bytes: IntArray
    time: IntArray
    exposed: IntArray
    rate: float


@dataclass(frozen=True, eq=False)
class RankFacts:
    """The facts of one rank; arrays are by window.

    `kernels` by name; `copies` by (copyKind, pageable). `blockers`: (calls, ns that the host was
    blocked, is a copy) by blocking call, named by name_blocking_calls(). `gap_places`: idle ns by
    (cause, module or NVTX range that the host was in). `longest`: (ns, at ns) of the longest gap
    by cause. `tiny`: kernels below TINY_NS; `tiny_idle`: ns of gaps right before them with the
    cause launch or latency. `sync_cost`: idle ns that synchronisation causes. `host_work`: by
    cause. `module_times`: ns a step of kernels without concurrent communication by module, layers
    folded ("h.*.attn"); `tiny_modules`: launches of tiny kernels by module. `exposed_modules`: ns
    of communication with no compute beside it by module, "" for what no module is known to own.
    """

    report: str
    states: RankStates
    kernels: Mapping[str, KernelTime]
    copies: Mapping[Key, CopyTime]
    blockers: Mapping[str, tuple[IntArray, IntArray, bool]]
    gap_places: Mapping[tuple[int, GapPlace], int]
    longest: Mapping[int, tuple[int, int]]
    kernel_count: IntArray
    tiny: IntArray
    tiny_idle: IntArray
    host_times: HostTimes
    sync_cost: IntArray
    gpu: str
    host: str
    health: Health
    host_work: Mapping[int, HostWork]
    gpu_use: GpuUse = NO_USE
    module_times: Mapping[str, int] = field(default_factory=dict)
    tiny_modules: Mapping[str, int] = field(default_factory=dict)
    exposed_modules: Mapping[str, int] = field(default_factory=dict)


def rank_facts(
    activity: Activity, offset_ns: int, report: str, record: HostRecord = NO_RECORD
) -> RankFacts:
    """The facts of one rank; times by window, in ns."""
    steps, ops = find_steps(activity), activity.ops
    first, last = steady_window(activity)
    gpu = Windows(np.r_[first, steps.start], np.r_[last, steps.end])
    kernels = np.flatnonzero((ops.kind == COMPUTE) | (ops.kind == COMMUNICATION))
    tiny = kernels[ops.duration[kernels] < TINY_NS]
    return RankFacts(
        report=report,
        states=_states(activity, offset_ns, record),
        kernels=_sum_kernels(activity),
        copies=_sum_copies(activity, gpu),
        blockers=_sum_blocking_calls(activity, steps),
        gap_places=_gap_places(activity),
        longest=_find_longest(activity, offset_ns),
        kernel_count=gpu.count(ops.start[kernels]),
        tiny=gpu.count(ops.start[tiny]),
        tiny_idle=_tiny_idle(activity, gpu, tiny),
        host_times=measure_host_times(activity, steps),
        sync_cost=gpu.sum(*sync_shadow(activity)),
        gpu=activity.gpu,
        host=activity.host,
        health=rank_health(activity, report),
        host_work=host_work(activity, record),
        module_times=_sum_module_times(activity),
        tiny_modules=_count_tiny_kernels(activity, tiny),
        exposed_modules=_sum_exposed(activity),
    )


def _states(activity: Activity, offset_ns: int, record: HostRecord) -> RankStates:
    """The rank's states, with the compilations of its start-up that samples show."""
    states = rank_states(activity, offset_ns)
    compilations = find_compilations(record.stacks, activity.calls.thread)
    if not compilations.total:
        return states
    return replace(states, start_up=find_start_up_with_compilations(activity, compilations))


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of time, which may overlap."""

    start: IntArray
    end: IntArray

    def sum(self, time: IntArray, weight: IntArray) -> IntArray:
        """The sum of the weights of the events in each window, given the events' times."""
        if not is_rising(time):
            order = np.argsort(time, kind="stable")
            time, weight = time[order], weight[order]
        sums = np.r_[0, np.cumsum(weight)]
        first, behind = (np.searchsorted(time, edge) for edge in (self.start, self.end))
        return np.asarray(sums[behind] - sums[first], np.int64)

    def count(self, time: IntArray) -> IntArray:
        ordered = time if is_rising(time) else np.sort(time)
        first, behind = (np.searchsorted(ordered, edge) for edge in (self.start, self.end))
        return np.asarray(behind - first, np.int64)


def _is_steady(activity: Activity, time: IntArray) -> NDArray[np.bool_]:
    first, last = steady_window(activity)
    return (time >= first) & (time < last)


def _sum_kernels(activity: Activity) -> dict[str, KernelTime]:
    ops = activity.ops
    rows = np.flatnonzero((ops.kind == COMPUTE) & _is_steady(activity, ops.start))
    alone = ~ops.union(COMMUNICATION).touches(ops.start[rows], ops.end[rows])
    place, names = encode_column(ops.name[rows])
    duration = ops.duration[rows]
    sums = [
        np.bincount(place, weights=weight, minlength=len(names)).astype(np.int64)
        for weight in (None, duration, alone, duration * alone)
    ]
    return {
        activity.names[name]: KernelTime(*map(int, row))
        for name, row in zip(names.tolist(), zip(*sums, strict=True), strict=True)
    }


def _sum_module_times(activity: Activity) -> dict[str, int]:
    if load_marks(activity.ranges) is None:
        return {}
    ops = activity.ops
    rows = np.flatnonzero((ops.kind == COMPUTE) & _is_steady(activity, ops.start))
    rows = rows[~ops.union(COMMUNICATION).touches(ops.start[rows], ops.end[rows])]
    steps = max(1, int(np.sum(find_steps(activity).start >= steady_window(activity)[0])))
    sums = sum_by_module(activity, rows, ops.duration[rows])
    return {name: ns // steps for name, ns in sums.items()}


def _count_tiny_kernels(activity: Activity, tiny: IntArray) -> dict[str, int]:
    rows = tiny[_is_steady(activity, activity.ops.start[tiny])]
    return sum_by_module(activity, rows, np.ones(len(rows), np.int64))


def _sum_exposed(activity: Activity) -> dict[str, int]:
    ops = activity.ops
    rows = np.flatnonzero((ops.kind == COMMUNICATION) & _is_steady(activity, ops.start))
    start, end = ops.start[rows], ops.end[rows]
    exposed = end - start - ops.union(COMPUTE).within(start, end)
    sums = sum_by_module(activity, rows, exposed)
    return {**sums, "": int(exposed.sum()) - sum(sums.values())}


def _sum_copies(activity: Activity, windows: Windows) -> dict[Key, CopyTime]:
    ops, hidden = activity.ops, activity.ops.union(COMPUTE)
    large = (ops.kind == COPY) & (ops.bytes >= STAGED_BYTES)
    copies = {}
    for kind in list_distinct(ops.copy_kind[large]):
        for pageable in (False, True):
            rows = np.flatnonzero(large & (ops.copy_kind == kind) & (ops.pageable == pageable))
            if not len(rows):
                continue
            start, end, size = ops.start[rows], ops.end[rows], ops.bytes[rows]
            exposed = end - start - hidden.within(start, end)
            copies[kind, pageable] = CopyTime(
                count=windows.count(start),
                bytes=windows.sum(start, size),
                time=windows.sum(start, end - start),
                exposed=windows.sum(start, exposed),
                rate=float(np.median(size / np.maximum(end - start, 1))),
            )
    return copies


def _sum_blocking_calls(
    activity: Activity, steps: Steps
) -> dict[str, tuple[IntArray, IntArray, bool]]:
    blocking = blocking_calls(activity)
    name, names = name_blocking_calls(activity)
    first, last = activity.calls.start.min(initial=0), activity.calls.end.max(initial=1)
    edges = np.r_[steps.host_start[1:], steps.host_end[-1:]]
    windows = Windows(np.r_[first, steps.host_start], np.r_[last, edges])
    blockers = {}
    for code in list_distinct(name):
        chosen = name == code
        start, held = blocking.start[chosen], (blocking.end - blocking.start)[chosen]
        sums = windows.count(start), windows.sum(start, held)
        blockers[names[code]] = (*sums, bool(blocking.copies[chosen].any()))
    return blockers


def _gap_places(activity: Activity) -> dict[tuple[int, GapPlace], int]:
    """Idle ns by (cause, place of the host)."""
    gaps = find_gaps(activity)
    place, places = find_gap_places(activity)
    # Each combination is encoded as one integer: np.unique on rows of a matrix takes seconds.
    code = gaps.cause * len(places) + place
    length = np.where(_is_steady(activity, gaps.start), gaps.end - gaps.start, 0)
    sums = np.bincount(code, weights=length)
    return {
        (int(key) // len(places), places[int(key) % len(places)]): round(float(sums[key]))
        for key in np.flatnonzero(sums)
    }


def _find_longest(activity: Activity, offset_ns: int) -> dict[int, tuple[int, int]]:
    gaps = find_gaps(activity)
    length, longest_by_step = gaps.end - gaps.start, {}
    steady = _is_steady(activity, gaps.start)
    for cause in list_distinct(gaps.cause[steady]):
        rows = np.flatnonzero((gaps.cause == cause) & steady)
        longest = rows[np.argmax(length[rows])]
        longest_by_step[cause] = (int(length[longest]), int(gaps.start[longest]) + offset_ns)
    return longest_by_step


def _tiny_idle(activity: Activity, windows: Windows, tiny: IntArray) -> IntArray:
    gaps, is_tiny = find_gaps(activity), np.zeros(len(activity.ops.start), bool)
    is_tiny[tiny] = True
    before = is_among(gaps.cause, (LAUNCH, LATENCY)) & is_tiny[gaps.next_op]
    return windows.sum(gaps.start[before], (gaps.end - gaps.start)[before])
