"""The budget of an engine's iterations as the answer's first line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.serving.budget import NOT_SEEN, PARTS, WORK
from gpu_profile.analysis.activity.serving.marks import DECODE, KINDS, MIXED, PREFILL, UNKNOWN
from gpu_profile.analysis.activity.serving.quantiles import QUANTILES, average_near
from gpu_profile.analysis.findings.view import RankView

LEAST_TOLD_MS = 0.005
"""A part below that is 0.00 or 0.01 ms in the text."""
_WORDS = {"launch": "launches", "host": "host", "wait": "wait for the copy"}


@dataclass(frozen=True)
class BudgetFacts:
    """Iterations of the rank with the longest ones: of `kind` decode, or of the most frequent kind
    where none decode. `parts_ms`: by quantile ("median", "p95", "p99") and part, which sum to the
    step near that quantile. `prompt_share`: of the time, in iterations that hold prompts.
    """

    rank: int
    kind: str
    count: int
    parts_ms: Mapping[str, Mapping[str, float]]
    prompt_share: float

    def to_text(self) -> str:
        """For example "decode step: 24.10 ms, median of 1081 on rank 0, p95 25.20, p99 31.00: GPU
        7.91 (attention 1.20, ...), launches 0.10, host 16.00, wait for the copy 0.09;
        iterations with prompts take 12 % of the time".
        """
        step, late, latest = (f"{sum(parts.values()):.2f}" for parts in self.parts_ms.values())
        name = "iteration (kind unknown)" if self.kind == KINDS[UNKNOWN] else f"{self.kind} step"
        head = f"{name}: {step} ms, median of {self.count} on rank {self.rank}"
        parts = f"{head}, p95 {late}, p99 {latest}: {self._tell_work()}, {self._tell_idle()}"
        if not self.prompt_share:
            return parts
        return f"{parts}; iterations with prompts take {100 * self.prompt_share:.0f} % of the time"

    @property
    def _median(self) -> Mapping[str, float]:
        return self.parts_ms["median"]

    def _tell_work(self) -> str:
        names = (*WORK, NOT_SEEN)
        shown = [f"{name} {self._median[name]:.2f}" for name in names if self._is_told(name)]
        hidden = ", not seen in what" if self._is_told(NOT_SEEN) else ""
        total = sum(self._median[name] for name in names) + self._median["latency"]
        return f"GPU {total:.2f} ({', '.join(shown)}{hidden})"

    def _tell_idle(self) -> str:
        return ", ".join(f"{words} {self._median[name]:.2f}" for name, words in _WORDS.items())

    def _is_told(self, name: str) -> bool:
        return self._median[name] >= LEAST_TOLD_MS


def find_budget(views: Sequence[RankView]) -> BudgetFacts | None:
    """The budget of the rank whose iterations take longest; None without iterations."""
    facts = [budget for view in views if (budget := _measure_rank(view)) is not None]
    return max(facts, key=lambda budget: sum(budget.parts_ms["median"].values()), default=None)


def _measure_rank(view: RankView) -> BudgetFacts | None:
    budget, steps = view.common.budget, view.states.steps
    if budget is None or view.stop <= view.first:
        return None
    parts, kinds = (column[view.steady_slice] for column in (budget.parts, steps.kind))
    counts = np.bincount(kinds, minlength=len(KINDS))
    kind = DECODE if counts[DECODE] else int(np.argmax(counts))
    rows = parts[kinds == kind] / 1e6
    by_quantile = {
        label: dict(zip(PARTS, average_near(rows, quantile).tolist(), strict=True))
        for label, quantile in QUANTILES.items()
    }
    prompts = (kinds == PREFILL) | (kinds == MIXED)
    share = float(parts[prompts].sum()) / max(float(parts.sum()), 1.0)
    return BudgetFacts(view.rank, KINDS[kind], len(rows), by_quantile, share)
