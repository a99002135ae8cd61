"""Compare runs of a base and a new program, and decide whether the new one is slower.

The verdict takes into account how much runs of one program differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.compare.kernels import list_changed_kernels
from gpu_profile.analysis.compare.lost_data import check_complete
from gpu_profile.analysis.compare.notes import list_notes
from gpu_profile.analysis.compare.rank_sets import Runs, check_recordings, check_samples
from gpu_profile.analysis.compare.samples import Metric
from gpu_profile.analysis.compare.significance import (
    ASSUMED_SPREAD,
    FEWEST,
    MOST_RUNS,
    Difference,
    compare_medians,
    count_runs_to_find,
)
from gpu_profile.analysis.compare.steady import RunSamples, sample_run
from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.table import Table


@dataclass(frozen=True)
class SideTimes:
    """Samples of one side in its steady steps, in ns.

    `medians` holds the median of each run and `median` is their mean. `p95` and `cv_percent` are
    of all samples together. `fewest`: the samples of the run with fewest. `warm_up` and `left_out`
    count the steps left out of all runs (RunSamples), with the `reason` of each run.
    """

    count: int
    medians: tuple[float, ...]
    median: float
    p95: float
    cv_percent: float
    fewest: int = 0
    warm_up: int = 0
    left_out: int = 0
    reason: str = ""

    @classmethod
    def of(cls, runs: Sequence[RunSamples]) -> "SideTimes":
        samples = np.concatenate([run.times for run in runs])
        medians = tuple(float(np.median(run.times)) for run in runs)
        deviation = float(np.std(samples, ddof=1)) if len(samples) > 1 else 0.0
        return cls(
            count=len(samples),
            medians=medians,
            median=float(np.mean(medians)),
            p95=float(np.quantile(samples, 0.95)),
            cv_percent=100 * deviation / float(np.mean(samples)),
            fewest=min(len(run.times) for run in runs),
            warm_up=sum(run.warm_up for run in runs),
            left_out=sum(run.left_out for run in runs),
            reason="; ".join(dict.fromkeys(run.reason for run in runs if run.reason)),
        )


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison. `kernels` lists only the kernels that differ.

    `notes` are lines that a reader must know, such as another number of kernels on one rank.
    """

    metric: str
    base: SideTimes
    new: SideTimes
    difference: Difference | None
    fail_over: float
    kernels: Table
    notes: tuple[str, ...] = ()
    require_decision: bool = False
    """Whether "undecided" fails the gate, too."""

    @property
    def verdict(self) -> str:
        """The verdict: "pass", "regression", "improvement" or "undecided".

        A regression or improvement must be significant and larger than `fail_over`. Undecided is
        a comparison of too few samples, and a new side that is slower by more than `fail_over` and
        not significantly.
        """
        if self.difference is None:
            return "undecided"
        change = self.difference.change
        if abs(change) <= self.fail_over:
            return "pass"
        if self.difference.significant:
            return "regression" if change > 0 else "improvement"
        return "undecided" if change > 0 else "pass"

    @property
    def is_regression(self) -> bool:
        """Whether the new side is slower."""
        return self.verdict == "regression"

    @property
    def fails(self) -> bool:
        """Whether a CI gate must fail; the caller raises GateError."""
        return self.is_regression or (self.require_decision and self.verdict == "undecided")

    @property
    def missing_steps(self) -> int:
        """How many more steps the run with fewest needs for a verdict."""
        return max(0, FEWEST - min(self.base.fewest, self.new.fewest))

    @property
    def runs_to_decide(self) -> int | None:
        """How many runs a side would tell this change, or one as large as the threshold, from the
        noise; None where these runs can, or more than MOST_RUNS were needed.
        """
        difference = self.difference
        if difference is None or difference.significant:
            return None
        change = max(abs(difference.change), self.fail_over)
        return count_runs_to_find(change, difference.spread) if difference.noise > change else None

    def __str__(self) -> str:
        """The verdict on one line, with the change, its interval and the medians."""
        medians = f"{self.base.median / 1e6:.3f} -> {self.new.median / 1e6:.3f} ms"
        if self.difference is None:
            return f"{self.metric}: undecided: {medians}, {self._explain_too_few()}"
        low, high = 100 * self.difference.low, 100 * self.difference.high
        line = (
            f"{self.metric}: {self.verdict}, {100 * self.difference.change:+.2f} % "
            f"({medians}; 97.5 % interval {low:+.2f} to {high:+.2f} %, noise "
            f"{100 * self.difference.noise:.2f} %, threshold {100 * self.fail_over:g} %; "
            f"{self._spread_words(self.difference)})"
        )
        return f"{line}. {self.describe_need()}" if self.verdict == "undecided" else line

    def describe_need(self) -> str:
        """A sentence on what would decide; "" where nothing is missing."""
        difference = self.difference
        if difference is None or difference.significant:
            return ""
        change = max(abs(difference.change), self.fail_over)
        if difference.noise <= change:
            return ""
        runs, spread = self.runs_to_decide, f"{100 * difference.spread:.1f} %"
        count = f"{runs} runs" if runs else f"More than {MOST_RUNS} runs"
        what = f"a change of {100 * change:.3g} % from noise"
        return f"{count} a side would tell {what}, if runs differ by {spread}"

    def _explain_too_few(self) -> str:
        if not self.missing_steps:
            return "a run takes no time in most of its steps"
        few = [
            name for name, side in (("base", self.base), ("new", self.new)) if side.fewest < FEWEST
        ]
        return (
            f"{self.base.count} and {self.new.count} samples, {FEWEST} a run are needed: record "
            f"{self.missing_steps} more steps in each run of the {' and the '.join(few)} side"
        )

    def _spread_words(self, change: Difference) -> str:
        """How many runs there are, and by how much they differ or are assumed to differ."""
        counts = [len(side.medians) for side in (self.base, self.new)]
        percentage = f"{100 * change.spread:.1f} %"
        if not change.is_assumed:
            return f"{counts[0]} and {counts[1]} runs, which differ by {percentage}"
        runs = "one run a side" if counts == [1, 1] else "three runs in all"
        return f"{runs}: runs of one program are assumed to differ by {percentage}"


def parse_percent(text: str, flag: str = "--fail-over") -> float:
    """Parse `5%` or `5` as 0.05. Raises SettingsError."""
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        # Refused below together with negative numbers, `inf` and `nan`.
        value = -1.0
    if not 0 <= value < float("inf"):
        raise SettingsError(f"{flag} {text!r} is not a percentage", "Use for example 5%")
    return value / 100


def compare_samples(
    base: Runs,
    new: Runs,
    metric: Metric,
    fail_over: float,
    assumed_spread: float = ASSUMED_SPREAD,
) -> Comparison:
    """Compare the runs of two sides by the samples of their ranks.

    Raises ReportError where the two cannot be compared, or where a rank lost a part of its data.
    """
    on_host = check_sides(base, new, metric)
    before = [sample_run(run, metric, "base") for run in base]
    after = [sample_run(run, metric, "new") for run in new]
    times = [run.times for run in before], [run.times for run in after]
    return Comparison(
        metric=f"{metric} on the host" if on_host else str(metric),
        base=SideTimes.of(before),
        new=SideTimes.of(after),
        difference=compare_medians(times[0], times[1], assumed_spread),
        fail_over=fail_over,
        kernels=list_changed_kernels(base, new, fail_over),
        notes=list_notes(base, new),
    )


def check_sides(base: Runs, new: Runs, metric: Metric) -> bool:
    """Return whether the runs hold times of the host alone.

    Raises ReportError where the two sides cannot be compared, or where a rank lost data.
    """
    on_host = [{all(rank.on_host for rank in run) for run in side} for side in (base, new)]
    if len(on_host[0] | on_host[1]) > 1:
        side = "base" if True in on_host[0] else "new"
        what = f"the {side} run holds no GPU work, and the other does"
        raise ReportError(what, "Compare runs of one kind; `invoke diagnose` says what is missing")
    for run in (*base[1:], *new):
        check_samples(base[0], run, metric)
    check_complete(base, new)
    check_recordings(base, new)
    return True in on_host[0]
