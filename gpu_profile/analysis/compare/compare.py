"""Compare runs of a base and a new program, and decide whether the new one is slower.

The verdict takes into account how much runs of one program differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.steps import common_steps, warm_up
from gpu_profile.analysis.compare.rank_sets import check_kernels, check_samples
from gpu_profile.analysis.compare.samples import Metric, RankSamples, samples_of
from gpu_profile.analysis.compare.significance import (
    ASSUMED_SPREAD,
    FEWEST,
    Difference,
    Samples,
    compare_medians,
)
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.comm_kernels import comm_kernel
from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.table import Cell, Column, Table

Side = tuple[Database, Scope]
Runs = Sequence[Sequence[RankSamples]]
"""The runs of one side, each as the samples of its ranks."""
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
class Spread:
    """Samples of one side in its steady steps, in ns.

    `medians` holds the median of each run and `median` is their mean. `p95` and `cv_percent` are
    of all samples together.
    """

    count: int
    medians: tuple[float, ...]
    median: float
    p95: float
    cv_percent: float

    @classmethod
    def of(cls, runs: Sequence[Samples]) -> "Spread":
        samples = np.concatenate(runs)
        medians = tuple(float(np.median(run)) for run in runs)
        deviation = float(np.std(samples, ddof=1)) if len(samples) > 1 else 0.0
        high, cv = float(np.quantile(samples, 0.95)), 100 * deviation / float(np.mean(samples))
        return cls(len(samples), medians, float(np.mean(medians)), high, cv)


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison. `kernels` lists only the kernels that differ."""

    metric: str
    base: Spread
    new: Spread
    difference: Difference | None
    fail_over: float
    kernels: Table

    @property
    def verdict(self) -> str:
        """The verdict: "pass", "regression", "improvement" or "undecided" (too few samples).

        A regression or improvement must be significant and larger than `fail_over`.
        """
        if self.difference is None:
            return "undecided"
        if not self.difference.significant or abs(self.difference.change) <= self.fail_over:
            return "pass"
        return "regression" if self.difference.change > 0 else "improvement"

    @property
    def regressed(self) -> bool:
        """Whether a CI gate must fail; the caller raises GateError(str(comparison))."""
        return self.verdict == "regression"

    def __str__(self) -> str:
        """The verdict on one line, with the change, its interval and the medians."""
        medians = f"{self.base.median / 1e6:.3f} -> {self.new.median / 1e6:.3f} ms"
        if self.difference is None:
            few = f"{self.base.count} and {self.new.count} samples, {FEWEST} a run are needed"
            return f"{self.metric} is undecided: {medians}, {few}"
        low, high = 100 * self.difference.low, 100 * self.difference.high
        return (
            f"{self.metric}: {self.verdict}, {100 * self.difference.change:+.2f} % "
            f"({medians}; 97.5 % interval {low:+.2f} to {high:+.2f} %, noise "
            f"{100 * self.difference.noise:.2f} %, threshold {100 * self.fail_over:g} %; "
            f"{self._spread_words(self.difference)})"
        )

    def _spread_words(self, change: Difference) -> str:
        """How many runs there are, and by how much they differ or are assumed to differ."""
        counts = [len(side.medians) for side in (self.base, self.new)]
        percentage = f"{100 * change.spread:.1f} %"
        if not change.assumed:
            return f"{counts[0]} and {counts[1]} runs, which differ by {percentage}"
        runs = "one run a side" if counts == [1, 1] else "three runs in all"
        return f"{runs}: runs of one program are assumed to differ by {percentage}"


def parse_percent(text: str, flag: str = "--fail-over") -> float:
    """Parse `5%` or `5` as 0.05. Raises SettingsError."""
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise SettingsError(f"{flag} {text!r} is not a percentage", "Use for example 5%")
    return value / 100


def compare_reports(
    base: Sequence[Side], new: Sequence[Side], metric: str = "step", fail_over: float = 0.05
) -> Comparison:
    """Compare one run with another in this process; `base` and `new` are the reports of one run
    each.

    For tests and notebooks: the verb reads each run first. Raises ReportError if neither run has
    the metric.
    """
    parsed_metric = Metric.parse(metric)
    sides = [
        [rank for database, scope in side for rank in samples_of(database, scope, parsed_metric)]
        for side in (base, new)
    ]
    return compare_samples([sides[0]], [sides[1]], parsed_metric, fail_over)


def compare_samples(
    base: Runs,
    new: Runs,
    metric: Metric,
    fail_over: float,
    assumed_spread: float = ASSUMED_SPREAD,
) -> Comparison:
    """Compare the runs of two sides by the samples of their ranks."""
    on_host = [{all(rank.on_host for rank in run) for run in side} for side in (base, new)]
    if len(on_host[0] | on_host[1]) > 1:
        side = "base" if True in on_host[0] else "new"
        what = f"the {side} run holds no GPU work, and the other does"
        raise ReportError(what, "Compare runs of one kind; `invoke diagnose` says what is missing")
    for run in (*base[1:], *new):
        check_samples(base[0], run, metric)
    for run_side, runs in (("base", base), ("new", new)):
        for run in runs:
            check_kernels(run, run_side)
    before = [_run_samples(run, metric, "base") for run in base]
    after = [_run_samples(run, metric, "new") for run in new]
    kernels = _kernel_table(base, new, fail_over)
    change = compare_medians(before, after, assumed_spread)
    name = f"{metric} on the host" if True in on_host[0] else str(metric)
    return Comparison(name, Spread.of(before), Spread.of(after), change, fail_over, kernels)


def _run_samples(ranks: Sequence[RankSamples], metric: Metric, side: str) -> Samples:
    """One sample for each step or instance: of the slowest rank, or for a kernel the mean of the
    ranks.

    Only the steps that every rank recorded count, as in `diagnose`: a rank whose recording began
    late would pair its steps with the wrong ones of the others. Steps that are warm-up on any rank
    are left out on all ranks.
    """
    # If some ranks have GPU work, host times of a rank without GPU work are not comparable.
    ranks = [rank for rank in ranks if not rank.on_host] or ranks
    steady = _steady_steps(ranks)
    times = [
        rank.times[((rank.step >= first) & (rank.step < behind)) | (len(rank.steps) == 0)]
        for rank, (first, behind) in zip(ranks, steady, strict=True)
    ]
    times = [time for time in times if len(time)]
    if not times:
        raise ReportError(f"the {side} run has no {metric}", _format_hint(metric, ranks))
    common = min(len(time) for time in times)
    stacked = np.stack([time[:common] for time in times]).astype(np.float64)
    if not stacked.any():
        raise ReportError(f"the {side} run spends no time in {metric}", _format_hint(metric, ranks))
    return np.asarray(
        stacked.mean(axis=0) if metric.kind in ("kernel", "module") else stacked.max(axis=0)
    )


def _steady_steps(ranks: Sequence[RankSamples]) -> list[tuple[int, int]]:
    """For each rank (first, last + 1) of the steps that all ranks have, less the warm-up."""
    steps = [rank.steps for rank in ranks]
    drop = warm_up(steps)
    return [(min(first + drop, behind), behind) for first, behind in common_steps(steps)]


def _format_hint(metric: Metric, ranks: Sequence[RankSamples]) -> str:
    if metric.kind == "step":
        return "Mark each step with an NVTX range called step"
    if metric.kind == "module":
        return (
            "Record it with --annotate modules; `invoke stats --table module_sum` lists the names"
        )
    names = {name for rank in ranks for name in rank.kernels}
    close = sorted(name for name in names if metric.name.lower() in name.lower())
    if metric.kind == "kernel" and close:
        return f"There is {', '.join(close[:3])}"
    return "`invoke stats` lists the names"


@dataclass(frozen=True)
class _PerStep:
    count: float
    time: float


def _kernel_table(base: Runs, new: Runs, fail_over: float) -> Table:
    """Kernels that appeared, vanished, or changed in count or time by more than the threshold.

    Figures are for one step and rank. A collective can change without being different, because its
    time is mostly waiting: its state is "changed (waits)".
    """
    before, after = _per_step(base), _per_step(new)
    least = LEAST_KERNEL_SHARE * sum(kernel.time for kernel in before.values())
    rows = [
        _kernel_row(name, before.get(name), after.get(name), fail_over)
        for name in sorted(before.keys() | after.keys())
    ]
    shown = [row for row in rows if row[1] != "same" and abs(float(row[6] or 0)) >= least]
    return Table("kernels_changed", KERNEL_COLUMNS, tuple(sorted(shown, key=_by_change)))


def _by_change(row: tuple[Cell, ...]) -> tuple[float, str]:
    return (-abs(float(row[6] or 0)), str(row[0]))


def _per_step(runs: Runs) -> dict[str, _PerStep]:
    """By kernel name, the mean over steps, ranks and runs; 0 for ranks without the kernel."""
    sums: dict[str, list[float]] = {}
    ranks = sum(map(len, runs))
    for run in runs:
        for rank, (first, behind) in zip(run, _steady_steps(run), strict=True):
            part = slice(first, behind) if len(rank.steps) else slice(None)
            for name, (count, time) in rank.kernels.items():
                sum_and_count = sums.setdefault(name, [0.0, 0.0])
                sum_and_count[0] += float(np.mean(count[part]))
                sum_and_count[1] += float(np.mean(time[part]))
    return {name: _PerStep(c / ranks, t / ranks) for name, (c, t) in sums.items()}


def _kernel_row(
    name: str, base: _PerStep | None, new: _PerStep | None, fail_over: float
) -> tuple[Cell, ...]:
    old, now = base or _PerStep(0, 0), new or _PerStep(0, 0)
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
