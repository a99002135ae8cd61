"""What findings about idle GPUs share: the finding of some ranks, and lines of evidence."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from gpu_profile.analysis.activity.idle.gaps import CAUSES, STALL
from gpu_profile.analysis.arrays.periods import find_period, find_rare
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.view import RankView

ViewT = TypeVar("ViewT", bound=RankView)
DATA_RANGE = re.compile(r"data|load|fetch|batch|input|dataset|next", re.I)
DATA_ADVICE = (
    "prepare batches ahead of the step: more DataLoader workers, pin_memory, prefetch_factor, "
    "heavier preprocessing on the GPU or beforehand."
)
STACKS_ADVICE = " --annotate=steps names the function."


def judge_state(
    kind: str,
    cause: str,
    views: Sequence[ViewT],
    evidence: Callable[[Sequence[ViewT]], tuple[str, ...]],
    advice: str,
) -> Judgement:
    """A finding on these ranks; no finding without ranks."""
    if not views:
        return Judgement()
    ranks = tuple(sorted({view.rank for view in views}))
    facts = (*evidence(views), *note_missing_steps(views))
    return Judgement((Finding(kind, ranks, cause, facts, advice),))


def note_missing_steps(views: Sequence[RankView]) -> tuple[str, ...]:
    """Evidence that times are sums; none where all ranks have steps."""
    if all(view.has_steps for view in views):
        return ()
    return ("no steps were found: times are of the whole capture",)


def format_idle_line(
    views: Sequence[ViewT],
    cost_ms: Callable[[ViewT], float],
    words: str,
    step_ms: Callable[[ViewT], float] = lambda view: view.step_ms,
) -> str:
    """Return a line such as `ranks 0-3: 5.10 of 48.00 ms a step WORDS; most on rank 2, 14 %`."""
    # By share: the ranks of a pipeline can have steps of different length.
    worst = max(views, key=lambda view: cost_ms(view) / step_ms(view))
    mean = float(np.mean([cost_ms(view) for view in views]))
    step = float(np.mean([step_ms(view) for view in views]))
    return (
        f"{format_ranks(v.rank for v in views)}: {mean:.2f} of {step:.2f} ms a step {words}; "
        f"most on rank {worst.rank}, {100 * cost_ms(worst) / step_ms(worst):.0f} %"
    )


def list_places(views: Sequence[RankView], cause: int) -> tuple[str, ...]:
    """Evidence on the worst rank: the module or range with most idle time, and the longest gap."""
    worst = max(views, key=lambda view: view.share(f"idle_{CAUSES[cause]}"))
    place, part = worst.common.idle.find_top_place(cause)
    lines = [f"rank {worst.rank}: {100 * part:.0f} % of it in {place}"] if place.name else []
    lines += _list_delays(worst, cause)
    if cause in worst.common.idle.longest:
        ns, at = worst.common.idle.longest[cause]
        lines.append(f"rank {worst.rank}: longest gap {ns / 1e6:.3f} ms at {at / 1e6:.1f} ms")
    return (*lines, *_list_work(worst, cause))


def advise_stacks(views: Sequence[RankView]) -> str:
    """What would name the function that the hosts were in; "" where one is named."""
    works = (view.common.idle.host_work.get(STALL) for view in views)
    return "" if any(work and work.is_named for work in works) else STACKS_ADVICE


def waits_for_data(view: RankView) -> bool:
    """Whether the host waited for data, by its NVTX range, its sampled stacks, or its waits."""
    work = view.common.idle.host_work.get(STALL)
    place, _ = view.common.idle.find_top_place(STALL)
    loads = not place.is_module and DATA_RANGE.search(place.name)
    return bool(loads) or bool(work and work.is_loading)


def _list_delays(view: RankView, cause: int) -> list[str]:
    values = view.delays(f"idle_{CAUSES[cause]}")
    work = view.common.idle.host_work.get(cause)
    period = find_period(values, view.least_delay)
    if not period:
        rare = find_rare(values, view.least_delay)
        return [f"rank {view.rank}: {rare}"] if rare else []
    delays = [f"rank {view.rank}: {period}"]
    if work and work.before_input and not work.names_other:
        delays.append(f"a data loader whose {period.n} workers are too slow waits in this way")
    return delays


def _list_work(view: RankView, cause: int) -> list[str]:
    work = view.common.idle.host_work.get(cause)
    return [f"rank {view.rank}: {line}" for line in work.lines()] if work else []
