"""The types of a finding, of a rule's judgement, and of the view of a rank that rules judge."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.health import ReportHealth
from gpu_profile.analysis.activity.states import RankSplit
from gpu_profile.analysis.arrays.periods import (
    LEAST_NS,
    find_period,
    find_rare,
    find_single,
)
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.rank_facts import RankFacts
from gpu_profile.analysis.modules.gap_places import NOWHERE, GapPlace

CAP_QUANTILE = 0.9
# Single steps differ by chance; a delay of a quarter of the step is clear in any of them.
LEAST_DELAY = 0.25
# What happens in fewer than every other step is not part of the loop: a log, a checkpoint.
LEAST_FREQUENCY = 0.5
# A GPU that seems idle ran the kernels that were not recorded. A finding needs idle time of 10 % of
# the step; kernels that make up half of that may be missing.
UNSEEN_SHARE = 0.05


# A cost of which others explain less than a quarter stays, however small the rest is.
LEAST_EXPLAINED = 0.25


@dataclass(frozen=True)
class Share:
    """A part of the cost of another finding, of this `kind` and `cause` on the same ranks.

    `ms` is that part in a step. A rest below `least` ms is no finding.
    """

    kind: str
    cause: str
    ms: float
    least: float


@dataclass(frozen=True)
class Finding:
    """One finding. `ms_per_step` is the most that could be saved, in each step of an affected
    rank.

    Without steps (`per_step` is False) it is the time in the whole recording, and texts say "in
    all" instead of "a step". `shares`: what is said here and is no cost of other findings.
    """

    kind: str
    ranks: tuple[int, ...]
    cause: str
    ms_per_step: float
    evidence: tuple[str, ...]
    advice: str
    per_step: bool = True
    shares: tuple[Share, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The finding as the stable object of --format json."""
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
        """The unit behind `ms_per_step` in texts: "a step" or "in all"."""
        return "a step" if self.per_step else "in all"

    def without_shares(self, others: Iterable["Finding"]) -> "Finding | None":
        """The finding with what others leave of its cost; None if too little is left."""
        shares = [
            share
            for other in others
            for share in other.shares
            if (share.kind, share.cause) == (self.kind, self.cause)
            and set(self.ranks) <= set(other.ranks)
        ]
        share = max(shares, key=lambda one: one.ms, default=None)
        if share is None or share.ms < LEAST_EXPLAINED * self.ms_per_step:
            return self
        rest = self.ms_per_step - share.ms
        line = f"{share.ms:.2f} ms a step of it are the straggler's delay and not counted here"
        left = replace(self, ms_per_step=rest, evidence=(*self.evidence, line))
        return left if rest >= share.least else None

    def of_recording(self) -> "Finding":
        """The same finding for a recording without steps."""
        evidence = tuple(line.replace(" a step", " in all") for line in self.evidence)
        return replace(self, evidence=evidence, per_step=False)


@dataclass(frozen=True)
class Judgement:
    """The findings of a rule, and what it could not judge, with the reason."""

    findings: tuple[Finding, ...] = ()
    unjudged: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class View:
    """One rank in its steady steps `first` to `behind` - 1; all figures are means for one step."""

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
    def has_all_kernels(self) -> bool:
        """Whether so few kernels are missing (UNSEEN_SHARE) that its idle time can be judged."""
        return self.facts.health.unseen_share <= UNSEEN_SHARE

    @property
    def steps(self) -> int:
        return max(1, self.behind - self.first)

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
        return windows[1 + self.first : 1 + self.behind] if self.has_steps else windows[:1]

    def frequency(self, counts: IntArray) -> float:
        """The part of the steady steps with at least one event, of counts by window (without steps:
        the number of events).

        The ten copies of a checkpoint in every fifth step are two a step, but in a fifth of them.
        """
        values = self.steady(counts)
        return float(np.mean(values > 0)) if self.has_steps else float(values[0])

    def ms(self, *states: str) -> float:
        """The time in these states, in ms for one step."""
        return sum(self.mean(self.split.spent[state]) for state in states) / 1e6

    def delays(self, state: str) -> IntArray:
        """The time in a state by steady step (ns), without delays that came once: steps that have
        one (find_single) count as much as the median step.
        """
        values = self.steady(self.split.spent[state])
        return np.where(self.is_single(state), int(np.median(values)), values)

    def is_single(self, state: str) -> NDArray[np.bool_]:
        """A mask of the steady steps with a delay that does not prove to come again."""
        return find_single(self.steady(self.split.spent[state]), self.least_delay)

    def repeats(self, state: str) -> bool:
        """Whether a delay in this state comes in every n-th step, or in two or more steps."""
        values = self.delays(state)
        return bool(find_period(values, self.least_delay) or find_rare(values, self.least_delay))

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
        states = self.facts.states
        once = self.steady(self.split.spent[state]) - self.delays(state)
        mean = float(np.mean(self.steady(states.end - states.start) - once)) / 1e6
        return mean if self.repeats(state) else self.step_ms

    @property
    def step_ms(self) -> float:
        states = self.facts.states
        return self.mean(states.end - states.start) / 1e6

    @property
    def host_ms(self) -> float:
        """The host's time in a step, less that in blocking calls and full launch queues (ms)."""
        return self.mean(np.r_[0, self.facts.host_times.active]) / 1e6 if self.has_steps else 0.0

    @property
    def silent_ms(self) -> float:
        """The part of host_ms in which it issued nothing for as long as a stall (ms)."""
        return self.mean(np.r_[0, self.facts.host_times.silent]) / 1e6 if self.has_steps else 0.0

    def share(self, *states: str) -> float:
        """The part of the step in these states, 0 to 1."""
        return self.ms(*states) / self.step_ms if self.step_ms else 0.0

    @property
    def start(self) -> int:
        """When the first steady step began (ns, the run's clock)."""
        return int(self.facts.states.start[1 + self.first if self.has_steps else 0])

    @property
    def end(self) -> int:
        """When the last steady step ended (ns, the run's clock)."""
        return int(self.facts.states.end[self.behind if self.has_steps else 0])

    def top_place(self, cause: int) -> tuple[GapPlace, float]:
        """(place, part 0 to 1) of the module or range with most of the idle time of this cause."""
        times = {place: ns for (why, place), ns in self.facts.gap_places.items() if why == cause}
        if not times:
            return NOWHERE, 0.0
        place = max(sorted(times, key=str), key=lambda key: times[key])
        return place, times[place] / sum(times.values())


def _mean_capped(values: IntArray) -> float:
    cap = np.quantile(values, CAP_QUANTILE, method="lower")
    return float(np.mean(np.minimum(values, cap)))


def format_ranks(ranks: Iterable[int]) -> str:
    """Ranks as text: "rank 0", "ranks 0, 2" or "ranks 0-7"."""
    numbers = sorted(set(ranks))
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"ranks {numbers[0]}-{numbers[-1]}"
    return f"ranks {', '.join(map(str, numbers))}"


@dataclass(frozen=True)
class FindingRow:
    """A row of docs/findings.md: these causes of a finding, and when they are reported."""

    causes: tuple[str, ...]
    when: str


def _judge_nothing(*_: object) -> Judgement:
    return Judgement()


def _is_never(*_: object) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class FindingRule:
    """A kind of finding, the constant `RULE` of the file `findings/rules/<kind>.py`.

    - `title` is the page's heading, `rows` are those of docs/findings.md.
    - `judge` gets the views of all ranks with steps (of all ranks, if none has steps).
    - `judge_reports` gets the views of all ranks and the health of all reports.
    - `explains`: whether findings of this kind explain another one, which is then left out.
    - `unclear_without_steps`: whether a finding of this kind may be start-up in a recording
      without steps. It is then a note.
    - `needs_all_kernels`: `judge` gets only ranks whose kernels were recorded (has_all_kernels).
    - `holds_tracing_cost`: its cost includes the profiler's overhead at each launch.
    """

    kind: str
    title: str
    rows: tuple[FindingRow, ...]
    judge: Callable[[Sequence[View]], Judgement] = _judge_nothing
    judge_reports: Callable[[Sequence[View], Sequence[ReportHealth]], Judgement] = _judge_nothing
    explains: Callable[[Sequence[Finding], Finding], bool] = _is_never
    unclear_without_steps: Callable[[Finding], bool] = _is_never
    needs_all_kernels: bool = False
    holds_tracing_cost: bool = False
