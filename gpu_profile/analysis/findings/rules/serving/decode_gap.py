"""Finding decode_gap: the GPU idles while the host works between two iterations of an engine."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.idle.gaps import STALL
from gpu_profile.analysis.activity.serving.marks import DECODE
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.idle_time import advise_stacks, judge_state, list_places
from gpu_profile.analysis.findings.places import find_longest_gap
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule, collect_nothing
from gpu_profile.analysis.findings.view import RankView
from gpu_profile.analysis.replay.edits.iterations import DECODE_GAP

GAP_ADVICE = (
    "Let the host prepare the next iteration while the GPU works (async scheduling of vLLM, the "
    "overlap scheduler of SGLang and TensorRT-LLM), and move what it does there, such as "
    "detokenization, logging or HTTP, to another thread or process."
)


def judge_decode_gap(views: Sequence[RankView]) -> Judgement:
    """Find hosts that work between the copy of the tokens and the next launch."""
    slow = [view for view in views if view.is_costly(_measure_gap(view))]
    advice = GAP_ADVICE + advise_stacks(slow)
    return judge_state("decode_gap", "host", slow, _list_evidence, advice)


def _measure_gap(view: RankView) -> float:
    """The host's work between two iterations, in the mean of all (ms)."""
    return view.mean(np.r_[0, _list_gaps(view)]) / 1e6


def _list_gaps(view: RankView) -> IntArray:
    """The same by step (ns): texts are longer where more requests decode."""
    budget = view.common.budget
    return budget.of("host") if budget else np.zeros(len(view.states.steps), np.int64)


def _list_evidence(views: Sequence[RankView]) -> tuple[str, ...]:
    worst = max(views, key=_measure_gap)
    ranks = format_ranks(view.rank for view in views)
    return (f"{ranks}: {_describe_gap(worst)}", *list_places(views, STALL))


def _describe_gap(view: RankView) -> str:
    """For example "2.00 of 2.77 ms of a decode step between the copy of its tokens and the next
    launch (medians); 2.10 ms at p95, 2.60 ms at p99".
    """
    steps = view.states.steps
    kinds, gaps = steps.kind[view.steady_slice], _list_gaps(view)[view.steady_slice] / 1e6
    time = (steps.end - steps.start)[view.steady_slice] / 1e6
    rows, what = kinds == DECODE, "a decode step"
    if not rows.any():
        rows, what = kinds >= 0, "an iteration"
    middle, late, latest = np.quantile(gaps[rows], (0.5, 0.95, 0.99)).tolist()
    return (
        f"{middle:.2f} of {np.median(time[rows]):.2f} ms of {what} between the copy of its tokens "
        f"and the next launch (medians); {late:.2f} ms at p95, {latest:.2f} ms at p99"
    )


def _explains(_gaps: Sequence[Finding], other: Finding) -> bool:
    """What the host did there is told once. Launches between kernels are another loss."""
    return other.kind == "idle" and other.cause in ("host", "data")


RULE = FindingRule(
    kind="decode_gap",
    title="Gap between decode steps",
    collect=collect_nothing,
    judge=judge_decode_gap,
    rows=(
        FindingRow(
            causes=("host",),
            when=(
                "the steps are an engine's iterations, and the GPU idles while the host works "
                "between the copy of the tokens and the next launch. It stands in for `idle` with "
                "cause `host`"
            ),
        ),
    ),
    needs_all_kernels=True,
    explains=_explains,
    time_ms=lambda view, _: _measure_gap(view),
    edit=lambda _finding: DECODE_GAP,
    place=find_longest_gap(STALL),
    excess=_list_gaps,
)
