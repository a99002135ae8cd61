"""The view of a rank that rules judge."""

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.states import RankSplit, RankStates
from gpu_profile.analysis.activity.steps.common_steps import CAP_QUANTILE
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.periods import LEAST_NS, find_period, find_rare, find_single
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.common import CommonFacts
from gpu_profile.analysis.replay.changes import LEAST_SHARE

# Single steps differ by chance; a delay of a quarter of the step is clear in any of them.
LEAST_DELAY = 0.25
# What happens in fewer than every other step is not part of the loop: a log, a checkpoint.
LEAST_FREQUENCY = 0.5
# "0.0 copies a step" tells nothing.
LEAST_TOLD = 0.05
# A GPU that seems idle ran the kernels that were not recorded. A finding needs idle time of 10 % of
# the step; kernels that make up half of that may be missing.
UNSEEN_SHARE = 0.05

Fact = TypeVar("Fact", covariant=True)


@dataclass(frozen=True, eq=False)
class RankView:
    """One rank in its steady steps `first` to `stop` - 1; all figures are means for one step."""

    common: CommonFacts
    split: RankSplit
    first: int
    stop: int

    @property
    def states(self) -> RankStates:
        return self.common.states

    @property
    def rank(self) -> int:
        return self.states.rank

    @property
    def has_steps(self) -> bool:
        return len(self.states.steps) > 0

    @property
    def has_all_kernels(self) -> bool:
        """Whether so few kernels are missing (UNSEEN_SHARE) that its idle time can be judged."""
        return self.common.health.unseen_share <= UNSEEN_SHARE

    @property
    def steady_slice(self) -> slice:
        """The steady steps in arrays by step."""
        return slice(self.first, self.stop)

    @property
    def steps(self) -> int:
        return max(1, self.stop - self.first)

    def mean(self, windows: IntArray) -> float:
        """The mean over the steady steps, of sums by window (the whole span's without steps).

        Values above the 90th percentile are clipped to it, so that one slow step does not look
        like a trend.
        """
        return _mean_capped(self.steady(windows))

    def steady(self, windows: IntArray) -> IntArray:
        """The values of the steady steps, out of values by window (the whole span's without
        steps).
        """
        return windows[1 + self.first : 1 + self.stop] if self.has_steps else windows[:1]

    def frequency(self, counts: IntArray) -> float:
        """The part of the steady steps with at least one event, of counts by window (without steps:
        the number of events).

        The ten copies of a checkpoint in every fifth step are two a step, but in a fifth of them.
        """
        values = self.steady(counts)
        return float(np.mean(values > 0)) if self.has_steps else float(values[0])

    def tell_rare(self, counts: IntArray) -> str:
        """How many steps have what comes too seldom for a number a step; "" for what does not."""
        if self.mean(counts) >= LEAST_TOLD:
            return ""
        share = float(np.mean(self.steady(counts) > 0))
        return f"in one of {1 / share:.0f} steps" if share else "in no steady step"

    def ms(self, *states: str) -> float:
        """The time in these states, in ms for one step."""
        return sum(self.mean(self.split.spent[state]) for state in states) / 1e6

    @once_each
    def delays(self, state: str) -> IntArray:
        """The time in a state by steady step (ns), without delays that came once: steps that have
        one (find_single) count as much as the median step.
        """
        values = self.steady(self.split.spent[state])
        return np.where(self.is_single(state), int(np.median(values)), values)

    @once_each
    def is_single(self, state: str) -> NDArray[np.bool_]:
        """A mask of the steady steps with a delay that does not prove to come again."""
        return find_single(self.steady(self.split.spent[state]), self.least_delay)

    @once_each
    def repeats(self, state: str) -> bool:
        """Whether a delay in this state comes in every n-th step, or in two or more steps."""
        values = self.delays(state)
        return self.is_periodic(state) or bool(find_rare(values, self.least_delay))

    @once_each
    def is_periodic(self, state: str) -> bool:
        """Whether a delay in this state comes in every n-th step."""
        return find_period(self.delays(state), self.least_delay) is not None

    @property
    def least_delay(self) -> int:
        """The shortest delay (ns) of single steps that counts: 1 ms, or a quarter of the step."""
        return min(LEAST_NS, int(LEAST_DELAY * self.step_ms * 1e6))

    def whole_ms(self, state: str) -> float:
        """The time in a state as ms() gives it, without delays that came once. A delay that repeats
        counts in full, however seldom it comes.
        """
        values = self.delays(state)
        capped = _mean_capped(values) / 1e6
        return max(capped, float(np.mean(values)) / 1e6) if self.repeats(state) else capped

    def whole_step_ms(self, state: str) -> float:
        """The step of which whole_ms() is a part."""
        states = self.states
        once = self.steady(self.split.spent[state]) - self.delays(state)
        mean = float(np.mean(self.steady(states.end - states.start) - once)) / 1e6
        return mean if self.repeats(state) else self.step_ms

    @cached_property
    def step_ms(self) -> float:
        states = self.states
        return self.mean(states.end - states.start) / 1e6

    @property
    def host_ms(self) -> float:
        """The host's time in a step, less that in blocking calls and full launch queues (ms)."""
        return self.mean(np.r_[0, self.common.host_times.active]) / 1e6 if self.has_steps else 0.0

    @property
    def silent_ms(self) -> float:
        """The part of host_ms in which it issued nothing for as long as a stall (ms)."""
        return self.mean(np.r_[0, self.common.host_times.silent]) / 1e6 if self.has_steps else 0.0

    def share(self, *states: str) -> float:
        """The part of the step in these states, 0 to 1."""
        return self.ms(*states) / self.step_ms if self.step_ms else 0.0

    @property
    def least_ms(self) -> float:
        """The least time in a step that is told (LEAST_SHARE)."""
        return LEAST_SHARE * self.step_ms

    def is_costly(self, ms: float) -> bool:
        """Whether a time in a step is told. A process may use a second GPU for copies alone: that
        GPU has steps of 0 ms, and no part of them is a cost.
        """
        return 0 < self.least_ms <= ms

    @property
    def start(self) -> int:
        """When the first steady step began (ns, the run's clock)."""
        return int(self.states.start[1 + self.first if self.has_steps else 0])

    @property
    def end(self) -> int:
        """When the last steady step ended (ns, the run's clock)."""
        return int(self.states.end[self.stop if self.has_steps else 0])


@dataclass(frozen=True, eq=False)
class View(RankView, Generic[Fact]):
    """A rank as one rule sees it: with the `fact` that the rule's `collect` computed of it."""

    fact: Fact


def _mean_capped(values: IntArray) -> float:
    cap = np.quantile(values, CAP_QUANTILE, method="lower")
    return float(np.mean(np.minimum(values, cap)))
