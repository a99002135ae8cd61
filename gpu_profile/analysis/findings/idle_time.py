"""What findings about idle GPUs share: the finding of some ranks, and lines of evidence."""

from collections.abc import Callable, Sequence

import numpy as np

from gpu_profile.analysis.activity.idle import CAUSES
from gpu_profile.analysis.arrays.periods import find_period
from gpu_profile.analysis.findings.finding import (
    Finding,
    Judgement,
    View,
    format_ranks,
)

# A well-fed GPU idles for a few percent of a step. Below 10 % there is little to save, and the
# profiler's overhead of some microseconds at each launch can explain it.
IDLE_SHARE = 0.10


def make_idle_finding(
    kind: str, cause: str, views: Sequence[View], gain: float, evidence: Sequence[str], advice: str
) -> Finding:
    ranks = tuple(sorted({view.rank for view in views}))
    return Finding(kind, ranks, cause, gain, tuple(evidence), advice)


def judge_state(
    kind: str,
    cause: str,
    views: Sequence[View],
    cost_ms: Callable[[View], float],
    evidence: Callable[[Sequence[View]], tuple[str, ...]],
    advice: str,
) -> Judgement:
    """A finding on these ranks with their mean cost; no finding without ranks."""
    if not views:
        return Judgement()
    gain = float(np.mean([cost_ms(view) for view in views]))
    facts = (*evidence(views), *note_missing_steps(views))
    return Judgement((make_idle_finding(kind, cause, views, gain, facts, advice),))


def note_missing_steps(views: Sequence[View]) -> tuple[str, ...]:
    if all(view.has_steps for view in views):
        return ()
    return ("no steps were found: times are of the whole capture",)


def format_idle_line(views: Sequence[View], cost_ms: Callable[[View], float], words: str) -> str:
    worst = max(views, key=lambda view: cost_ms(view) / view.step_ms)
    mean = float(np.mean([cost_ms(view) for view in views]))
    step = float(np.mean([view.step_ms for view in views]))
    return (
        f"{format_ranks(v.rank for v in views)}: {mean:.2f} of {step:.2f} ms a step {words}; "
        f"most on rank {worst.rank}, {100 * cost_ms(worst) / worst.step_ms:.0f} %"
    )


def list_places(views: Sequence[View], cause: int) -> tuple[str, ...]:
    """Evidence on the worst rank: the module or range with most idle time, and the longest gap."""
    worst = max(views, key=lambda view: view.share(f"idle_{CAUSES[cause]}"))
    place, part = worst.top_place(cause)
    lines = [f"rank {worst.rank}: {100 * part:.0f} % of it in {place}"] if place.name else []
    period = find_period(worst.steady(worst.split.spent[f"idle_{CAUSES[cause]}"]))
    work = worst.facts.host_work.get(cause)
    if period:
        lines.append(f"rank {worst.rank}: {period}")
        if work and work.before_input:
            lines.append(f"so waits a data loader whose {period.n} workers are too slow")
    if cause in worst.facts.longest:
        ns, at = worst.facts.longest[cause]
        lines.append(f"rank {worst.rank}: longest gap {ns / 1e6:.3f} ms at {at / 1e6:.1f} ms")
    lines += [f"rank {worst.rank}: {line}" for line in work.lines()] if work else []
    return tuple(lines)
