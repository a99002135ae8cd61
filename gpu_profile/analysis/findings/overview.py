"""Start-up and step times of a run: facts of the run, not findings with a cost."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from gpu_profile.analysis.activity.serving.processes import OtherProcess
from gpu_profile.analysis.activity.start_up import FIRST_STEPS
from gpu_profile.analysis.activity.steps.common_steps import warm_up
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.finding import drop_lone_rank, format_ranks
from gpu_profile.analysis.findings.requests.times import IterationTimes, find_iteration_times
from gpu_profile.analysis.findings.token_budget import BudgetFacts, find_budget
from gpu_profile.analysis.findings.view import RankView

OTHER = "other work of the host"
MOST_TOLD = 4
"""Processes without GPU work that are named."""


@dataclass(frozen=True)
class StartUpFacts:
    """The longest start-up of all ranks: seconds in all and by part, longest part first.

    `compiled`: `compiled_kernels` of StartUp.
    """

    rank: int
    seconds: float
    parts: Mapping[str, float]
    first_steps: int
    compiled: int = 0

    def to_text(self) -> str:
        """For example "11.2 s on rank 1, of which 4.1 s loading CUDA libraries, 2.0 s …"."""
        parts = ", ".join(
            f"{_format_time(value)} {self._name(name)}" for name, value in self.parts.items()
        )
        return f"{self.seconds:.1f} s on rank {self.rank}" + (
            f", of which {parts}" if parts else ""
        )

    def _name(self, name: str) -> str:
        first = "the first step" if self.first_steps == 1 else f"the first {self.first_steps} steps"
        if self.compiled:
            first += f" (the first launches of {self.compiled} kernels of torch.compile)"
        return first if name == FIRST_STEPS else name


@dataclass(frozen=True)
class StepFacts:
    """Step times in ms of the slowest rank (by its median) over its `count` steady steps.

    `left_out` is the number of warm-up steps. `confidence`: see Steps.
    """

    rank: int
    count: int
    left_out: int
    median: float
    low: float
    high: float
    variation: float
    source: str
    confidence: float

    def to_text(self) -> str:
        """For example "53.6 ms, median of 39 steps of rank 1, the slowest; 5th to 95th percentile
        …".
        """
        warm = f", after {self.left_out} left out as warm-up" if self.left_out else ""
        return (
            f"{self.median:.2f} ms, median of {self.count} steps of rank {self.rank}, the slowest"
            f"{warm}; 5th to 95th percentile {self.low:.2f} to {self.high:.2f} ms, variation "
            f"{self.variation:.1f} %; found by {self.source}{self._tell_doubt()}"
        )

    def _tell_doubt(self) -> str:
        alike = f" ({100 * self.confidence:.0f} % of the steps are alike)"
        return alike if self.confidence < 1 else ""


@dataclass(frozen=True)
class Overview:
    """The facts of a run. `no_steps`: why some ranks have no steps, e.g. "rank 0: 3 operations
    were launched". `iterations`: of an engine, in Unix time. `is_alone`: the run has rank 0 alone,
    so that no text has to name a rank. `others`: processes of an engine without GPU work.
    """

    start_up: StartUpFacts | None = None
    step: StepFacts | None = None
    no_steps: tuple[str, ...] = field(default=())
    is_alone: bool = False
    budget: BudgetFacts | None = None
    iterations: IterationTimes | None = None
    others: tuple[OtherProcess, ...] = ()

    def describe_step(self) -> dict[str, object]:
        """`step_ms` for JSON: how many steps were found, how, and how long they are; or null."""
        return {"step_ms": asdict(self.step) if self.step else None}

    def to_lines(self) -> Iterator[str]:
        """The known facts, one line each."""
        if self.budget:
            yield self._format(self.budget.to_text())
        if self.start_up:
            yield self._format(f"start-up: {self.start_up.to_text()}")
        if self.step:
            yield self._format(f"step: {self.step.to_text()}")
        if self.budget and self.others:
            yield f"without GPU work: {_list_processes(self.others)}"

    def _format(self, line: str) -> str:
        return drop_lone_rank(line) if self.is_alone else line


def _list_processes(others: Sequence[OtherProcess]) -> str:
    """For example "process 655 (python3), process 656 (python3) and 4 more"."""
    texts = [process.to_text() for process in others[:MOST_TOLD]]
    count = len(others) - MOST_TOLD
    return ", ".join(texts) + (f" and {count} more" if count > 0 else "")


def overview(
    views: Sequence[RankView],
    hosts: Sequence[tuple[int, Steps]] = (),
    utc: int = 0,
    others: Sequence[OtherProcess] = (),
) -> Overview:
    """The facts of a run; without GPU work those of `hosts`, pairs of (rank, steps). `utc`: as of
    DiagnosedReport.
    """
    if not views:
        return Overview(
            step=_describe_host_step(hosts), is_alone=[rank for rank, _ in hosts] == [0]
        )
    stepping = [view for view in views if view.has_steps]
    # A process can use a second GPU only for copies; the steps on that GPU are empty.
    computing = [view for view in stepping if view.mean(view.common.kernel_count)] or stepping
    slowest = max(computing, key=lambda view: float(np.median(_list_times(view))), default=None)
    return Overview(
        start_up=_start_up(stepping),
        step=_describe_step(slowest) if slowest else None,
        no_steps=tuple(_list_reasons([view for view in views if not view.has_steps])),
        is_alone=[view.rank for view in views] == [0],
        budget=find_budget(stepping),
        iterations=find_iteration_times(stepping, utc),
        others=tuple(others),
    )


def _list_times(view: RankView) -> list[float]:
    steps = view.states.steps
    times = (steps.end - steps.start)[view.steady_slice]
    return [float(time) / 1e6 for time in times] or [0.0]


def _describe_host_step(hosts: Sequence[tuple[int, Steps]]) -> StepFacts | None:
    drop = warm_up([steps for _, steps in hosts])
    times = [(rank, steps, (steps.end - steps.start)[drop:] / 1e6) for rank, steps in hosts]
    with_steps = [(rank, steps, ms.tolist()) for rank, steps, ms in times if len(ms)]
    if not with_steps:
        return None
    rank, steps, slowest = max(with_steps, key=lambda entry: float(np.median(entry[2])))
    facts = _make_step_facts(rank, steps, slowest, drop)
    return replace(facts, source=f"{facts.source}, by the host's clock")


def _describe_step(view: RankView) -> StepFacts:
    steps = view.states.steps
    facts = _make_step_facts(view.rank, steps, _list_times(view), view.first)
    return replace(facts, source=facts.source + _tell_left_out(steps, view.first, view.stop))


def _tell_left_out(steps: Steps, first: int, stop: int) -> str:
    """For example ", without 1 evaluation of 863 ms between the steps"."""
    free = steps.evaluation_ns[first : stop - 1]
    count, total = int(np.sum(free > 0)), _format_time(float(free.sum()) / 1e9)
    what = f"1 evaluation of {total}" if count == 1 else f"{count} evaluations of {total} in all"
    left_out = f", without {what} between the steps" if count else ""
    return left_out + _tell_pauses(steps.empty_ns[first : stop - 1])


def _tell_pauses(empty_ns: IntArray) -> str:
    """For example ", without 2 pauses of 1.2 s in all between requests"."""
    count, total = int(np.sum(empty_ns > 0)), _format_time(float(empty_ns.sum()) / 1e9)
    what = f"1 pause of {total}" if count == 1 else f"{count} pauses of {total} in all"
    return f", without {what} between requests" if count else ""


def _make_step_facts(rank: int, steps: Steps, times: Sequence[float], left_out: int) -> StepFacts:
    low, middle, high = (float(value) for value in np.quantile(times, (0.05, 0.5, 0.95)))
    deviation = float(np.std(times, ddof=1)) if len(times) > 1 else 0.0  # as of step_sum
    spread = 100 * deviation / max(float(np.mean(times)), 1e-9)
    return StepFacts(
        rank, len(times), left_out, middle, low, high, spread, steps.source, steps.confidence
    )


def _start_up(views: Sequence[RankView]) -> StartUpFacts | None:
    ranks = [(view.rank, view.states.start_up) for view in views]
    with_start_up = [(rank, start_up) for rank, start_up in ranks if start_up is not None]
    if not with_start_up:
        return None
    rank, longest = max(with_start_up, key=lambda pair: pair[1].length)
    parts = {name: ns / 1e9 for name, ns in longest.parts.items()}
    parts[OTHER] = max(longest.length / 1e9 - sum(parts.values()), 0.0)
    ordered = sorted(parts.items(), key=lambda pair: (-pair[1], pair[0]))
    large_parts = {name: value for name, value in ordered if value >= 0.01 * longest.length / 1e9}
    counts = longest.first_steps, longest.compiled_kernels
    return StartUpFacts(rank, longest.length / 1e9, large_parts, *counts)


def _list_reasons(views: Sequence[RankView]) -> Iterator[str]:
    by_reason: dict[str, list[int]] = {}
    for view in views:
        why = view.states.steps.why_none or "no range or repetition holds GPU work"
        by_reason.setdefault(why, []).append(view.rank)
    yield from (f"{format_ranks(ranks)}: {why}" for why, ranks in by_reason.items())


def _format_time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"
