"""Model FLOPs of one rank's steady steps: by module, kernel class and number format."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.columns import encode_column
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.modules.flop_calls import (
    NO_KERNEL,
    NO_MODULE,
    PASSES,
    FlopCalls,
    find_flop_calls,
    multiplies,
)
from gpu_profile.analysis.modules.marks import Module
from gpu_profile.analysis.modules.module_times import (
    count_steady_steps,
    find_steady_kernels,
    is_steady_on_host,
)
from gpu_profile.analysis.modules.owners import UNATTRIBUTED, find_op_owners
from gpu_profile.analysis.modules.peaks import find_format, find_peaks
from gpu_profile.analysis.tables.kernel_class import OTHER_CLASS, classify_kernel
from gpu_profile.analysis.tables.statistics import encode_rows


@dataclass(frozen=True)
class FlopSum:
    """The FLOPs of one module in one pass of PASSES, in one class of kernels and one number format
    ("" where the kernel's name does not say it).
    """

    module: Module
    work: str
    kernel_class: str
    format: str
    flops: int


@dataclass(frozen=True)
class RankFlops:
    """The FLOPs of one rank's steady steps, and the times (ns) that they took.

    `span` is the time of the steps, 0 without steps. `by_module` and `by_class` are times of
    compute kernels, of all of them `kernel_time`. `unknown` is the time of those that multiply
    matrices, by their names, for no operator of known FLOPs: replayed CUDA graphs, Triton's
    templates, a convolution without its backward.
    """

    rank: int
    gpu: str
    steps: int
    span: int
    sums: tuple[FlopSum, ...]
    by_module: Mapping[Module, int]
    by_class: Mapping[str, int]
    kernel_time: int
    unknown: int

    @property
    def usual_format(self) -> str:
        """The format with most FLOPs, which those of unknown format are counted in; "" if none is
        known.
        """
        flops_by_format: Counter[str] = Counter()
        for flop_sum in self.sums:
            flops_by_format[flop_sum.format] += flop_sum.flops if flop_sum.format else 0
        return max(flops_by_format, key=lambda name: (flops_by_format[name], name), default="")

    def ideal_ns(self, flop_sum: FlopSum) -> float | None:
        """The time that the GPU needs for these FLOPs at its peak; None for an unknown GPU."""
        peak = find_peaks(self.gpu).get(flop_sum.format or self.usual_format)
        return flop_sum.flops / peak / 1e3 if peak else None


def measure_flops(activity: Activity) -> RankFlops | None:
    """The FLOPs of one rank; None if the recording holds no shapes."""
    calls = find_flop_calls(activity)
    if calls is None:
        return None
    steady = is_steady_on_host(activity, calls.start)
    return RankFlops(
        activity.rank,
        activity.gpu,
        count_steady_steps(activity),
        _measure_span(activity),
        tuple(_list_sums(activity, calls, np.where(steady, np.maximum(calls.flops, 0), 0))),
        _sum_module_times(activity),
        _sum_class_times(activity),
        int(activity.ops.duration[_find_steady_compute(activity)].sum()),
        _sum_unknown(activity, calls),
    )


def _sum_unknown(activity: Activity, calls: FlopCalls) -> int:
    """ns of compute kernels that multiply matrices for no call of known FLOPs."""
    rows = np.setdiff1d(_find_steady_compute(activity), calls.counted_rows)
    return int(activity.ops.duration[rows[multiplies(activity, rows)]].sum())


def _measure_span(activity: Activity) -> int:
    """The time (ns) of the steady steps."""
    steps, counted = find_steps(activity), count_steady_steps(activity)
    return int((steps.end - steps.start)[len(steps) - counted :].sum())


def _list_sums(activity: Activity, calls: FlopCalls, flops: IntArray) -> Iterator[FlopSum]:
    codes, combinations = encode_rows(calls.module, calls.work, calls.kernel)
    totals = np.zeros(len(combinations), np.int64)
    np.add.at(totals, codes, flops)
    sums: Counter[tuple[Module, str, str, str]] = Counter()
    for (module, work, kernel), total in zip(combinations, totals.tolist(), strict=True):
        name = activity.names.get(kernel, "") if kernel != NO_KERNEL else ""
        kernel_class = classify_kernel(name) if name else OTHER_CLASS
        sums[calls.modules[module], PASSES[work], kernel_class, find_format(name)] += total
    yield from (FlopSum(*key, total) for key, total in sums.items() if total)


def _sum_module_times(activity: Activity) -> dict[Module, int]:
    """ns of compute kernels by module; NO_MODULE for the others."""
    rows, owners = _find_steady_compute(activity), find_op_owners(activity)
    duration = activity.ops.duration[rows]
    if owners is None:
        return {NO_MODULE: int(duration.sum())}
    sums: Counter[Module] = Counter()
    times = np.zeros(len(owners.owners), np.int64)
    np.add.at(times, owners.of_op[rows], duration)
    for owner, time in zip(owners.owners, times.tolist(), strict=True):
        sums[NO_MODULE if owner.work == UNATTRIBUTED else owner.module] += time
    return dict(sums)


def _sum_class_times(activity: Activity) -> dict[str, int]:
    """ns of compute kernels by class of kernel."""
    rows = _find_steady_compute(activity)
    codes, names = encode_column(activity.ops.full_name[rows])
    times = np.zeros(len(names), np.int64)
    np.add.at(times, codes, activity.ops.duration[rows])
    sums: Counter[str] = Counter()
    for name, time in zip(names.tolist(), times.tolist(), strict=True):
        sums[classify_kernel(activity.names.get(name, ""))] += time
    return dict(sums)


def _find_steady_compute(activity: Activity) -> IntArray:
    rows = find_steady_kernels(activity)
    return np.asarray(rows[activity.ops.kind[rows] == COMPUTE])
