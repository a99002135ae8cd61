"""Finding mixed_steps: prompts make the requests that decode wait for their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.serving.marks import DECODE, MIXED, PREFILL
from gpu_profile.analysis.activity.serving.pauses import find_awaited
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.idle_time import judge_state
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule, collect_nothing
from gpu_profile.analysis.findings.view import RankView
from gpu_profile.analysis.replay.edits.iteration_kinds import PROMPTS

LATE, LEAST_RATIO = 0.99, 2.0
"""A quantile of the time between tokens, and from how many times that without prompts on it is
told. vllm#44806 had an iteration with prompts that took 6 times a decode step."""
FEWEST = 8
# A word after "--max-num-batched-tokens " would be hidden as a secret.
PROMPT_ADVICE = (
    "Give an iteration fewer tokens of prompts (vLLM: --max-num-batched-tokens, SGLang: "
    "--chunked-prefill-size, TensorRT-LLM: max_num_tokens), or let other GPUs read the prompts "
    "(disaggregated serving)."
)


@dataclass(frozen=True, eq=False)
class TokenTimes:
    """Times between the tokens of requests that decode (ns), an entry for each iteration that
    decodes after another one. `alone`: no prompt came between. `batch`: requests in it.
    """

    time: IntArray
    alone: Flags
    batch: IntArray

    def find_late(self, rows: Flags) -> float:
        """The quantile LATE over the requests (ms)."""
        order = np.argsort(self.time[rows], kind="stable")
        reach = np.cumsum(np.maximum(self.batch[rows], 1)[order])
        place = int(np.searchsorted(reach, LATE * reach[-1]))
        return float(self.time[rows][order][min(place, len(order) - 1)]) / 1e6


def judge_mixed_steps(views: Sequence[RankView]) -> Judgement:
    """Find engines whose prompts make the time between tokens much longer at p99."""
    late = [view for view in views if _is_late(view)]
    return judge_state("mixed_steps", "prompts", late, _list_evidence, PROMPT_ADVICE)


def _measure_tokens(view: RankView) -> TokenTimes:
    """The times between tokens in the steady steps, without those after which none was left.

    Between two iterations that decode, those with prompts alone make the requests wait, too.
    """
    steps, kept = view.states.steps, view.steady_slice
    kind, emptied, end = steps.kind[kept], steps.ends_empty[kept], steps.end[kept]
    rows = np.flatnonzero((kind == DECODE) | (kind == MIXED))
    before, after = rows[:-1], rows[1:]
    sums = np.r_[0, np.cumsum(emptied)]
    goes_on = sums[after] == sums[before]
    alone = (after == before + 1) & (kind[after] == DECODE)
    return TokenTimes(
        (end[after] - end[before])[goes_on], alone[goes_on], steps.batch[kept][after][goes_on]
    )


def _is_late(view: RankView) -> bool:
    if not view.states.steps.are_iterations:
        return False
    tokens = _measure_tokens(view)
    if np.sum(tokens.alone) < FEWEST or tokens.alone.all():
        return False
    usual = tokens.find_late(tokens.alone)
    everything = np.ones(len(tokens.time), bool)
    return tokens.find_late(everything) >= LEAST_RATIO * usual


def _measure_loss(view: RankView) -> float:
    """What prompts add to the time between tokens, in the mean of all iterations (ms)."""
    if not view.states.steps.are_iterations:
        return 0.0
    tokens = _measure_tokens(view)
    if not tokens.alone.any():
        return 0.0
    usual = float(np.median(tokens.time[tokens.alone]))
    longer = np.maximum(tokens.time[~tokens.alone] - usual, 0)
    return float(longer.sum()) / view.steps / 1e6


def _find_excess(view: RankView) -> IntArray:
    """ns by step that prompts add to it, over the median step without."""
    steps = view.states.steps
    time, decodes = steps.end - steps.start, steps.kind == DECODE
    if not decodes.any():
        return np.zeros(len(steps), np.int64)
    longer = np.maximum(time - int(np.median(time[decodes])), 0)
    excess = np.where(steps.kind == PREFILL, time, longer)
    return np.where(find_awaited(steps.kind, steps.ends_empty), excess, 0)


def _list_evidence(views: Sequence[RankView]) -> tuple[str, ...]:
    worst = max(views, key=_measure_loss)
    tokens = _measure_tokens(worst)
    late = tokens.find_late(np.ones(len(tokens.time), bool))
    with_prompts = tokens.time[~tokens.alone]
    return (
        f"rank {worst.rank}: time between tokens {late:.2f} ms at p99, and "
        f"{tokens.find_late(tokens.alone):.2f} ms where no prompt comes between",
        f"rank {worst.rank}: {len(with_prompts)} of {len(tokens.time)} times hold prompts, "
        f"{np.median(with_prompts) / 1e6:.2f} ms in the median",
    )


RULE = FindingRule(
    kind="mixed_steps",
    title="Prompts between tokens",
    collect=collect_nothing,
    judge=judge_mixed_steps,
    rows=(
        FindingRow(
            causes=("prompts",),
            when=(
                "prompts in iterations that decode, or between them, make the time between tokens "
                "at p99 twice that without prompts. The gain is that of prompts which other GPUs "
                "read: smaller chunks gain at p99 and nothing in the mean"
            ),
        ),
    ),
    time_ms=lambda view, _: _measure_loss(view),
    edit=lambda _finding: PROMPTS,
    excess=_find_excess,
)
