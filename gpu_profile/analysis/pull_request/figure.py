"""A figure that a pull request is judged by: GPU time a step, or wall time a step."""

from dataclasses import dataclass

from gpu_profile.analysis.compare.paired import (
    FEWEST_PAIRS,
    MOST_PAIRS,
    PairedDifference,
    compare_pairs,
    count_pairs_to_find,
)
from gpu_profile.analysis.compare.significance import FEWEST

TITLES = {"gpu": "GPU time", "step": "wall time"}
"""The metrics of `compare`, and what they are called for a reviewer."""
VERDICTS = ("regression", "undecided", "improvement", "pass")
"""The one that matters most first: that of several figures together."""
WORDS = {
    "regression": "slower",
    "improvement": "faster",
    "undecided": "undecided",
    "pass": "not slower",
}


def format_percent(fraction: float) -> str:
    """Return "1.3 %" of 0.013, and "204 %" of 2.04."""
    percent = 100 * abs(fraction)
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The medians (ms) of the pairs' runs in one metric, "gpu" or "step".

    `fail_over`: slower by this much, and told from the noise, is a regression (0.01 is 1 %).
    `fewest`: the steps of the run with fewest.
    """

    metric: str
    base_ms: tuple[float, ...]
    new_ms: tuple[float, ...]
    fail_over: float
    fewest: int = FEWEST

    @property
    def difference(self) -> PairedDifference | None:
        """The difference; None with too few steps or pairs."""
        return compare_pairs(self.base_ms, self.new_ms) if self.fewest >= FEWEST else None

    @property
    def verdict(self) -> str:
        """One of VERDICTS. What is slower by more than `fail_over` and is not told from the noise,
        or has too few steps, is undecided.
        """
        difference = self.difference
        if difference is None:
            return "undecided"
        if abs(difference.change) <= self.fail_over:
            return "pass"
        if difference.significant:
            return "regression" if difference.change > 0 else "improvement"
        return "undecided" if difference.change > 0 else "pass"

    @property
    def mean_ms(self) -> tuple[float, float]:
        """The mean of the runs of the base, and of the change."""
        return sum(self.base_ms) / len(self.base_ms), sum(self.new_ms) / len(self.new_ms)

    def describe_need(self) -> str:
        """A sentence on what would tell more; "" where the noise is below what is judged."""
        if self.fewest < FEWEST:
            return f"{FEWEST - self.fewest} more steps in each run would decide the {self.title}"
        difference = self.difference
        if min(*self.base_ms, *self.new_ms) <= 0:
            return f"no pairs decide the {self.title}: it is 0 in most steps of a run"
        if difference is None:
            return f"{FEWEST_PAIRS} pairs at least would decide the {self.title}"
        change = max(difference.change, self.fail_over)
        if difference.significant or difference.noise <= change:
            return ""
        pairs = count_pairs_to_find(change, difference.spread)
        count = f"{pairs} pairs" if pairs else f"more than {MOST_PAIRS} pairs"
        return f"{count} would tell {format_percent(change)} more {self.title} from the noise"

    @property
    def title(self) -> str:
        return TITLES[self.metric]

    @property
    def words(self) -> str:
        """The verdict in words; a change below the threshold that is told from noise is named."""
        difference = self.difference
        if self.verdict != "pass" or difference is None or not difference.significant:
            return WORDS[self.verdict]
        way = "slower" if difference.change > 0 else "faster"
        return f"{way}, within {100 * self.fail_over:g} %"

    def __str__(self) -> str:
        """One line: the verdict, the change and the noise."""
        before, after = self.mean_ms
        medians = f"{before:.3f} -> {after:.3f} ms a step"
        difference = self.difference
        if difference is None:
            return f"{self.title}: undecided, {medians}, {self.describe_need()}"
        return (
            f"{self.title}: {self.words}, {100 * difference.change:+.2f} % ({medians};"
            f" noise {100 * difference.noise:.2f} %, threshold {100 * self.fail_over:g} %)"
        )
