"""The kernels that differ between the two sides of a comparison."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.compare.rank_sets import Runs
from gpu_profile.analysis.compare.steady import steady_steps
from gpu_profile.analysis.tables.comm_kernels import comm_kernel
from gpu_profile.table import Cell, Column, Table

# Kernels with less than 0.2 % of a step's kernel time are not listed.
LEAST_KERNEL_SHARE = 0.002
KERNEL_COLUMNS = (
    Column("Kernel"),
    Column("State"),
    Column("Base Count"),
    Column("New Count"),
    Column("Base", "ns"),
    Column("New", "ns"),
    Column("Change", "ns"),
    Column("Relative Change", "%"),
)


@dataclass(frozen=True)
class PerStep:
    """Launches and ns of a kernel in a step of a rank."""

    count: float
    time: float


def list_changed_kernels(base: Runs, new: Runs, fail_over: float) -> Table:
    """Kernels that appeared, vanished, or changed in count or time by more than the threshold.

    Figures are for one step and rank. A collective can change without being different, because its
    time is mostly waiting: its state is "changed (waits)".
    """
    before, after = average_per_step(base), average_per_step(new)
    least = LEAST_KERNEL_SHARE * sum(kernel.time for kernel in before.values())
    rows = [
        _make_row(name, before.get(name), after.get(name), fail_over)
        for name in sorted(before.keys() | after.keys())
    ]
    changes = [row for row in rows if row[1] != "same" and abs(float(row[6] or 0)) >= least]
    return Table("kernels_changed", KERNEL_COLUMNS, tuple(sorted(changes, key=_key_by_change)))


def _key_by_change(row: tuple[Cell, ...]) -> tuple[float, str]:
    return (-abs(float(row[6] or 0)), str(row[0]))


def average_per_step(runs: Runs) -> dict[str, PerStep]:
    """By kernel name, the mean over steps, ranks and runs; 0 for ranks without the kernel."""
    sums: dict[str, list[float]] = {}
    ranks = sum(map(len, runs))
    for run in runs:
        for rank, (first, stop) in zip(run, steady_steps(run), strict=True):
            part = slice(first, stop) if len(rank.steps) else slice(None)
            for name, (count, time) in rank.kernels.items():
                count_and_time = sums.setdefault(name, [0.0, 0.0])
                count_and_time[0] += float(np.mean(count[part]))
                count_and_time[1] += float(np.mean(time[part]))
    return {name: PerStep(c / ranks, t / ranks) for name, (c, t) in sums.items()}


def _make_row(
    name: str, base: PerStep | None, new: PerStep | None, fail_over: float
) -> tuple[Cell, ...]:
    old, now = base or PerStep(0, 0), new or PerStep(0, 0)
    change = now.time - old.time
    relative = change / old.time if old.time else None
    if base is None or new is None:
        state = "appeared" if base is None else "vanished"
    elif abs(change) > fail_over * old.time or round(old.count, 2) != round(now.count, 2):
        state = "changed (waits)" if comm_kernel(name) else "changed"
    else:
        state = "same"
    counts = (round(old.count, 2), round(now.count, 2))
    percent_change = None if relative is None else round(100 * relative, 2)
    return (name, state, *counts, round(old.time), round(now.time), round(change), percent_change)
