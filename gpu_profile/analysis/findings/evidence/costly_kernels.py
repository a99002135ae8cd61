"""The finding of the ranks on which some kernels cost too much, with evidence of the worst one."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.view import RankView

ViewT = TypeVar("ViewT", bound=RankView)


def judge_costly_kernels(
    kind: str,
    cause: str,
    views: Sequence[ViewT],
    measure_ms: Callable[[ViewT], float],
    list_evidence: Callable[[ViewT], tuple[str, ...]],
    advice: str,
) -> Judgement:
    """A finding on the ranks where that many ms a step are costly; none without such ranks."""
    slow = [view for view in views if view.is_costly(measure_ms(view))]
    if not slow:
        return Judgement()
    ranks = tuple(sorted({view.rank for view in slow}))
    evidence = list_evidence(max(slow, key=measure_ms))
    return Judgement((Finding(kind, ranks, cause, evidence, advice),))
