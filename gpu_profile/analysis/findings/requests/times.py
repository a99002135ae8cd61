"""When an engine's iterations ran, in Unix time: what requests are joined with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.serving.budget import IDLE, NOT_SEEN, WORK
from gpu_profile.analysis.activity.serving.marks import DECODE, MIXED, PREFILL
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.findings.view import RankView

PROMPTS = "the GPU's work in iterations with prompts"
DECODING = "the GPU's work in other iterations"
LAUNCHES = "launches and waits between the GPU's work"
HOST = "the host between two iterations"
NO_WORK = "no iteration"
WHERE = (PROMPTS, DECODING, LAUNCHES, HOST, NO_WORK)
"""Where the time of a request goes. NO_WORK: no iteration ran, though the request was there."""


@dataclass(frozen=True, eq=False)
class IterationTimes:
    """All iterations of one rank; times in ns since 1970. `parts`: ns by iteration, a column for
    each of WHERE but the last. `may_hold_prompts`: all but those that are known to decode only.
    """

    start: IntArray
    end: IntArray
    host_start: IntArray
    may_hold_prompts: Flags
    parts: IntArray

    def sum_between(self, start: int, end: int) -> IntArray:
        """ns by WHERE between two times. Each part of an iteration that is cut counts alike."""
        # Iterations follow each other, so that both times rise: no others overlap the span.
        low, high = np.searchsorted(self.end, start, "right"), np.searchsorted(self.start, end)
        rows = slice(int(low), max(int(low), int(high)))
        length = np.maximum(self.end[rows] - self.start[rows], 1)
        inside = np.minimum(self.end[rows], end) - np.maximum(self.start[rows], start)
        share = np.clip(inside / length, 0.0, 1.0)
        parts = np.rint((self.parts[rows] * share[:, None]).sum(axis=0)).astype(np.int64)
        return np.append(parts, max(0, end - start - int(parts.sum())))

    def find_prompt(self, time: int) -> int | None:
        """When the first iteration began that the host began after this time, and that may hold
        prompts.
        """
        rows = np.flatnonzero(self.may_hold_prompts & (self.host_start >= time))
        return int(self.start[rows[0]]) if len(rows) else None


def find_iteration_times(views: Sequence[RankView], utc: int) -> IterationTimes | None:
    """The iterations of the rank with most of them; None without iterations or Unix time."""
    budgets = [(view.states.steps, view.common.budget) for view in views]
    pairs = [(steps, budget) for steps, budget in budgets if budget is not None]
    if not pairs or not utc:
        return None
    most_steps, budget = max(pairs, key=lambda pair: len(pair[0]))
    steps = most_steps.moved(utc)
    prompts = (steps.kind == PREFILL) | (steps.kind == MIXED)
    work, host = budget.of(*WORK, NOT_SEEN), budget.of("host")
    others = budget.of(*(name for name in IDLE if name != "host"))
    parts = np.stack((work * prompts, work * ~prompts, others, host), axis=1)
    return IterationTimes(steps.start, steps.end, steps.host_start, steps.kind != DECODE, parts)
