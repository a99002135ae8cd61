"""A finding, and the view of a rank that the rules judge by."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.activity.states import RankSplit
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.rank_facts import RankFacts

CAP_QUANTILE = 0.9
KINDS = (
    "straggler",
    "pipeline",
    "experts",
    "host_bound",
    "exposed_communication",
    "idle",
    "pageable_copy",
    "synchronization",
    "tiny_kernels",
    "low_bandwidth",
    "unused_gpu",
    "capture",
)


@dataclass(frozen=True)
class Finding:
    """`ms_per_step` could be won at most, per step and affected rank. Without steps in the
    report (`per_step` is False) it is of the whole recording, and nothing says "a step"."""

    kind: str
    ranks: tuple[int, ...]
    cause: str
    ms_per_step: float
    evidence: tuple[str, ...]
    advice: str
    per_step: bool = True

    def as_json(self) -> dict[str, object]:
        """The stable object of --format json."""
        return {
            "kind": self.kind,
            "ranks": list(self.ranks),
            "cause": self.cause,
            "ms_per_step": round(self.ms_per_step, 3) if self.per_step else None,
            "evidence": list(self.evidence),
            "advice": self.advice,
            **({} if self.per_step else {"ms_in_all": round(self.ms_per_step, 3)}),
        }

    @property
    def unit(self) -> str:
        """What `ms_per_step` is per."""
        return "a step" if self.per_step else "in all"

    def of_recording(self) -> "Finding":
        """The same of a recording without steps."""
        evidence = tuple(line.replace(" a step", " in all") for line in self.evidence)
        return replace(self, evidence=evidence, per_step=False)


@dataclass(frozen=True)
class Judgement:
    """What a rule found, and what it could not judge, with the reason."""

    findings: tuple[Finding, ...] = ()
    unjudged: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class View:
    """One rank in its steady steps, from `first` to before `behind`; all figures are per step."""

    facts: RankFacts
    split: RankSplit
    first: int
    behind: int

    @property
    def rank(self) -> int:
        return self.facts.states.rank

    @property
    def has_steps(self) -> bool:
        return len(self.facts.states.steps) > 0

    @property
    def steps(self) -> int:
        return max(1, self.behind - self.first)

    def mean(self, windows: IntArray) -> float:
        """A step's mean of sums by window (the whole span's where no steps were found).

        The highest tenth counts as the value at its lower edge: one hiccup is no habit.
        """
        values = self.steady(windows)
        cap = np.quantile(values, CAP_QUANTILE, method="lower")
        return float(np.mean(np.minimum(values, cap)))

    def steady(self, windows: IntArray) -> IntArray:
        """Of sums by window, those of the steady steps (the whole span's where there are none)."""
        return windows[1 + self.first : 1 + self.behind] if self.has_steps else windows[:1]

    def ms(self, *states: str) -> float:
        """Time in these states."""
        return sum(self.mean(self.split.spent[state]) for state in states) / 1e6

    @property
    def step_ms(self) -> float:
        states = self.facts.states
        return self.mean(states.end - states.start) / 1e6

    def share(self, *states: str) -> float:
        """The part of the step spent in these states, 0 to 1."""
        return self.ms(*states) / self.step_ms if self.step_ms else 0.0

    @property
    def start(self) -> int:
        """When the first steady step began, in the run's clock."""
        return int(self.facts.states.start[1 + self.first if self.has_steps else 0])

    def top_range(self, cause: int) -> tuple[str, float]:
        """The NVTX range with most of the idle time of this cause, and its part (0 to 1)."""
        times = {name: ns for (why, name), ns in self.facts.gap_ranges.items() if why == cause}
        if not times:
            return "", 0.0
        name = max(sorted(times), key=lambda key: times[key])
        return name, times[name] / sum(times.values())


def format_ranks(ranks: Iterable[int]) -> str:
    """`rank 0`, `ranks 0, 2`, `ranks 0-7`."""
    numbers = sorted(set(ranks))
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"ranks {numbers[0]}-{numbers[-1]}"
    return f"ranks {', '.join(map(str, numbers))}"
