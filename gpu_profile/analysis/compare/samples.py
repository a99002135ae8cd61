"""Samples of one metric by step, and the kernels of a step: the input of a comparison."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, Activity, find_owners
from gpu_profile.analysis.activity.cached import activities_of, host_ranges_of
from gpu_profile.analysis.activity.health import report_health
from gpu_profile.analysis.activity.nvtx_ranges import NO_RANGE, Ranges, find_parents
from gpu_profile.analysis.activity.steps.find_steps import find_steps, host_steps
from gpu_profile.analysis.activity.steps.place_on_gpu import step_of
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.compare.completeness import Completeness, measure_completeness
from gpu_profile.analysis.modules.marks import is_inside
from gpu_profile.analysis.modules.owners import find_op_owners
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.errors import SettingsError

METRICS = ("step", "gpu", "range:NAME", "module:NAME", "kernel:NAME")
_NAMELESS = ("step", "gpu")


@dataclass(frozen=True)
class Metric:
    """A metric: `kind` is "step", "gpu", "range", "module" or "kernel"; `name` is that of the
    range, module or kernel.
    """

    kind: str
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> "Metric":
        """Parse "step" or "kernel:NAME" (see METRICS). Raises SettingsError for other texts."""
        kind, _, name = text.partition(":")
        if (kind in _NAMELESS and not name) or (f"{kind}:NAME" in METRICS and name):
            return cls(kind, name)
        raise SettingsError(f"metric {text!r} is not known", f"Use one of {', '.join(METRICS)}")

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind


@dataclass(frozen=True)
class Recording:
    """A number of events with the sum of their ends, their first start and last end (ns).

    No two recordings have the same ones, since a GPU's times are in ns.
    """

    events: int
    start: int
    end: int
    sum_of_ends: int

    @classmethod
    def of(cls, start: IntArray, end: IntArray) -> "Recording | None":
        if not len(start):
            return None
        # Sums of 10^6 times of 10^15 ns pass 2^63, and wrap around without harm.
        return cls(len(start), int(start.min()), int(end.max()), int(end.sum()))


@dataclass(frozen=True, eq=False)
class RankSamples:
    """Samples of one rank: `times` (ns) of the metric, and the `step` of each (-1: before any
    step). `steps` are on the run's clock.

    `kernels`: by name (launches, ns) in each step; without steps in one column for the whole
    recording.
    """

    rank: int
    steps: Steps
    times: IntArray
    step: IntArray
    kernels: Mapping[str, tuple[IntArray, IntArray]]
    on_host: bool = False
    """The report holds no GPU work, so the times are those on the host."""
    recording: Recording | None = None
    """What tells this recording from others; None without events."""
    completeness: Completeness | None = None
    """None without GPU work."""


def sample_rank(activity: Activity, metric: Metric, warnings: tuple[str, ...]) -> RankSamples:
    """The samples of one rank. `warnings`: what nsys says of lost events in its report.

    A sample is a step's time, the time of a step's kernels, a kernel's or a module's time in one
    step, or the span of one instance of a range on the GPU (on the host if the instance launched
    nothing).
    """
    steps, kernels = find_steps(activity), _sample_kernels(activity)
    if metric.kind == "step":
        times, step = steps.end - steps.start, np.arange(len(steps))
    elif metric.kind == "gpu":
        times = _sample_gpu(activity, steps)
        step = np.arange(len(times))
    elif metric.kind == "range":
        times, step = _sample_range(activity, steps, metric.name)
    elif metric.kind == "module":
        times = _sample_module(activity, steps, metric.name)
        step = np.arange(len(times))
    else:
        _, times = kernels.get(metric.name, (None, np.empty(0, np.int64)))
        step = np.arange(len(times))
    return RankSamples(
        rank=activity.rank,
        steps=steps,
        times=times,
        step=step,
        kernels=kernels,
        recording=Recording.of(activity.ops.start, activity.ops.end[:]),
        completeness=measure_completeness(activity, steps, kernels, warnings),
    )


def sample_report(database: Database, scope: Scope, metric: Metric) -> list[RankSamples]:
    """The samples of all ranks in one report; of the host's ranges if there is no GPU work."""
    activities = activities_of(database, scope)
    if activities:
        warnings = report_health(database, ()).losses
        samples = [sample_rank(activity, metric, warnings) for activity in activities]
    else:
        host = host_ranges_of(database, scope)
        samples = [_sample_host(rank, ranges, metric) for rank, ranges in host]
    return [replace(rank, steps=rank.steps.moved(scope.offset_ns)) for rank in samples]


def _sample_host(rank: int, ranges: Ranges, metric: Metric) -> RankSamples:
    steps = host_steps(ranges)
    times, step = steps.end - steps.start, np.arange(len(steps))
    if metric.kind in ("gpu", "kernel", "module"):
        times = step = np.empty(0, np.int64)
    if metric.kind == "range":
        instances = ranges.called(metric.name)
        times = instances.end - instances.start
        step = step_of(instances.start, steps.host_start, steps.host_end)
    recording = Recording.of(ranges.start, ranges.end)
    return RankSamples(rank, steps, times, step, {}, on_host=True, recording=recording)


def make_sampler(metric: Metric) -> functools.partial[list[RankSamples]]:
    """sample_report() with the metric filled in, as a function that another process can get."""
    return functools.partial(sample_report, metric=metric)


def _sample_kernels(activity: Activity) -> dict[str, tuple[IntArray, IntArray]]:
    """Launches and ns by kernel name and step; collectives too, though their time includes
    waiting.
    """
    ops, steps = activity.ops, find_steps(activity)
    step = step_of(activity.launch_starts[:], steps.host_start, steps.host_end)
    columns = len(steps) or 1
    step = step if len(steps) else np.zeros(len(ops.start), np.int64)
    kernel = (ops.kind == COMPUTE) | (ops.kind == COMMUNICATION)
    rows = np.flatnonzero(kernel & (step >= 0) & (step < columns))
    names, place = np.unique(ops.name[rows], return_inverse=True)
    cell, size = place * columns + step[rows], len(names) * columns
    counts = np.bincount(cell, minlength=size).reshape(-1, columns)
    times = np.bincount(cell, weights=ops.duration[rows], minlength=size).reshape(-1, columns)
    texts = [activity.names[int(name)] for name in names]
    return {
        text: (count.astype(np.int64), np.rint(time).astype(np.int64))
        for text, count, time in zip(texts, counts, times, strict=True)
    }


def _sample_gpu(activity: Activity, steps: Steps) -> IntArray:
    """The ns in which a kernel of each step ran, collectives left out: these wait for others. In
    one sample for the whole recording without steps.

    A kernel is of the step that launched it, so that a step of few kernels on a late GPU is whole.
    """
    ops, columns = activity.ops, len(steps) or 1
    step = step_of(activity.launch_starts[:], steps.host_start, steps.host_end)
    step = step if len(steps) else np.zeros(len(ops.start), np.int64)
    rows = np.flatnonzero((ops.kind == COMPUTE) & (step >= 0) & (step < columns))
    if not len(rows):
        return np.zeros(columns, np.int64)
    start, end = ops.start[rows], ops.end[rows]
    # Each step on a stretch of its own, so that one union tells the steps apart.
    first, span = int(start.min()), int(end.max() - start.min()) + 1
    moved = step[rows] * span - first
    busy = Intervals.union(start + moved, end + moved)
    times = np.bincount(busy.start // span, busy.end - busy.start, minlength=columns)
    return np.rint(times).astype(np.int64)


def _sample_module(activity: Activity, steps: Steps, name: str) -> IntArray:
    """The ns of kernels in each step that a module or the modules in it launched, collectives
    left out; in one sample for the whole recording without steps.

    "h.*.attn" is the modules of all layers.
    """
    owners = find_op_owners(activity)
    if owners is None:
        return np.empty(0, np.int64)
    chosen = np.array([is_inside(owner.module, name) for owner in owners.owners], bool)
    if not chosen.any():
        return np.empty(0, np.int64)
    step, columns = (
        step_of(activity.launch_starts[:], steps.host_start, steps.host_end),
        len(steps) or 1,
    )
    step = step if len(steps) else np.zeros(len(step), np.int64)
    kernel = (activity.ops.kind == COMPUTE) & chosen[owners.of_op]
    rows = np.flatnonzero(kernel & (step >= 0) & (step < columns))
    times = np.bincount(step[rows], activity.ops.duration[rows], minlength=columns)
    return np.rint(times).astype(np.int64)


def _sample_range(activity: Activity, steps: Steps, name: str) -> tuple[IntArray, IntArray]:
    """(ns, step) of each instance of a range, with the operations of the ranges inside it."""
    ranges = activity.ranges
    instances = ranges.called(name)
    if not len(instances.start):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    # Ranges of another domain (cuDNN's, NCCL's) would be the innermost ones of its operations.
    domain = ranges.pick(np.flatnonzero(ranges.domain == instances.domain[0]))
    is_instance = domain.name == instances.name[0]
    first, last = _find_edges(activity, domain, is_instance)
    rows = np.flatnonzero(is_instance)
    launched = last[rows] > first[rows]
    host = domain.end[rows] - domain.start[rows]
    times = np.where(launched, last[rows] - first[rows], host)
    return times, step_of(domain.start[rows], steps.host_start, steps.host_end)


def _find_edges(activity: Activity, ranges: Ranges, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """First start and last end of the operations in each range of the mask `chosen`."""
    first = np.full(len(ranges.start), np.iinfo(np.int64).max)
    # A range without operations keeps `first` above `last`, which tells it below.
    last = np.zeros_like(first)
    level, outer = find_owners(activity, ranges), find_parents(ranges)
    while np.any(level != NO_RANGE):
        ops = np.flatnonzero((level != NO_RANGE) & chosen[level])
        np.minimum.at(first, level[ops], activity.ops.start[ops])
        np.maximum.at(last, level[ops], activity.ops.end[ops])
        level = np.where(level == NO_RANGE, NO_RANGE, outer[level])
    return first, last
