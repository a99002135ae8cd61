"""Ranks that come late by turns, because what each computes differs from step to step."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.evidence.arrivals import (
    CONSTANCY,
    Waits,
    find_least_ms,
)
from gpu_profile.analysis.findings.finding import Finding, format_ranks
from gpu_profile.analysis.findings.view import RankView

EXPLAINED_PART = 0.5
"""The part of the ranks' waiting for each other that unequal compute has to explain."""
ADVICE = (
    "Give all ranks as much work in each step: batches of equal numbers of tokens or points, "
    "samples sorted into groups of like length over all ranks, packed sequences."
)


def measure_waited(waits: Waits) -> float:
    """How long (ms a step) each rank waits for others in this communicator, in the mean of all.

    Waits for a pipeline's messages do not count.
    """
    waited_ns = (waits.wait * waits.weight).sum(axis=1)
    steps = np.array([view.steps for view in waits.views])
    exposed = float(np.mean([view.ms("wait") for view in waits.views]))
    return min(exposed, float(np.mean(waited_ns / steps)) / 1e6)


def find_late_by_turns(waits: Waits, waited_ms: float) -> Finding | None:
    """The finding that the ranks compute more than each other by turns; None where that does not
    explain `waited_ms`.
    """
    views = waits.views
    computed = _list_computed(views)
    if computed is None or waited_ms < find_least_ms(views) or not _take_turns(computed):
        return None
    longer = computed.max(axis=0) - computed.mean(axis=0)
    # as RankView.mean(): one slow step is no trend
    spread_ms = float(np.mean(np.minimum(longer, np.quantile(longer, 0.9)))) / 1e6
    if spread_ms < EXPLAINED_PART * waited_ms:
        return None
    ranks = tuple(sorted({view.rank for view in views}))
    return Finding("straggler", ranks, "spread", _list_evidence(views, computed, waited_ms), ADVICE)


def _list_computed(views: Sequence[RankView]) -> IntArray | None:
    """The compute (ns) of each rank by step; None without steps that all ranks have."""
    rows = [view.steady(view.states.times["compute"]) for view in views]
    has_steps = all(view.has_steps for view in views) and len({len(row) for row in rows}) == 1
    return np.stack(rows) if has_steps else None


def _take_turns(computed: IntArray) -> bool:
    """Whether no rank computes most in so many steps that it is the same one steadily."""
    most = np.bincount(computed.argmax(axis=0)).max() / computed.shape[1]
    chance = 1 / len(computed)
    return bool((most - chance) / (1 - chance) < CONSTANCY)


def _list_evidence(
    views: Sequence[RankView], computed: IntArray, waited_ms: float
) -> tuple[str, ...]:
    most = np.bincount(computed.argmax(axis=0), minlength=len(views))
    step = int((computed.max(axis=0) - computed.min(axis=0)).argmax())
    high, low = (views[int(pick(computed[:, step]))].rank for pick in (np.argmax, np.argmin))
    most_ms, least_ms = computed[:, step].max() / 1e6, computed[:, step].min() / 1e6
    by_rank = ", ".join(
        f"rank {view.rank} in {count}" for view, count in zip(views, most.tolist(), strict=True)
    )
    step_ms = float(np.mean([view.step_ms for view in views]))
    return (
        f"{format_ranks(view.rank for view in views)} wait {waited_ms:.2f} of {step_ms:.2f} ms a "
        "step for each other in collectives, and none of them comes last steadily",
        f"of {computed.shape[1]} steps, {by_rank} computed most",
        f"the most unequal step: rank {high} computes {most_ms:.2f} ms, rank {low} {least_ms:.2f}",
    )
