"""Finding graph_miss: decode steps that launch their kernels one by one, beside those of graphs."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpu_profile.analysis.activity.activity import NO_CALL, Activity
from gpu_profile.analysis.activity.serving.marks import DECODE, NOT_TOLD
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.place_on_gpu import step_of
from gpu_profile.analysis.activity.steps.step_period import GRAPH_CALL
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.idle_time import judge_state
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.iteration_kinds import MISSED_GRAPHS
from gpu_profile.analysis.store.database import Database

FEWEST = 3
"""Decode steps with a graph that tell how long one takes."""
LAUNCHES, MOSTLY = ("host_bound", "tiny_kernels"), 0.75
"""The findings that tell the same loss, where this part of the waits for launches is in steps
without a graph."""
GRAPH_ADVICE = (
    "Capture graphs of these batches, too: cudagraph_capture_sizes of vLLM, --cuda-graph-max-bs or "
    "--cuda-graph-bs of SGLang, cuda_graph_config of TensorRT-LLM; or limit the batch to what is "
    "captured."
)

GraphLaunches = IntArray
"""The launches of CUDA graphs by step."""


def collect_graph_launches(activity: Activity, _: Database) -> GraphLaunches:
    """The launches of CUDA graphs in each step of one rank."""
    steps, calls, called = find_steps(activity), activity.calls, activity.ops.call
    launched = np.zeros(len(calls.start), bool)
    launched[called[called != NO_CALL]] = True
    graphs = calls.start[launched & calls.match_names(activity.names, GRAPH_CALL)]
    step = step_of(graphs, steps.host_start, steps.host_end) if len(steps) else graphs[:0]
    return np.bincount(step[step >= 0], minlength=len(steps)).astype(np.int64)


def judge_graph_miss(views: Sequence[View[GraphLaunches]]) -> Judgement:
    """Find decode steps without a graph where others have one."""
    missing = [view for view in views if view.is_costly(_measure_loss(view))]
    judged = judge_state("graph_miss", "batch", missing, _list_evidence, GRAPH_ADVICE)
    if not all(_holds_launches(view) for view in missing):
        return judged
    findings = (replace(finding, includes=LAUNCHES) for finding in judged.findings)
    return replace(judged, findings=tuple(findings))


def _holds_launches(view: View[GraphLaunches]) -> bool:
    """Whether the GPU waits for launches in the steps without a graph, and hardly in others."""
    budget, (missed, _, _) = view.common.budget, _split(view)
    if budget is None:
        return False
    waits = budget.of("launch")[view.steady_slice]
    return bool(waits[missed].sum() >= MOSTLY * waits.sum())


def _split(view: View[GraphLaunches]) -> tuple[Flags, Flags, IntArray]:
    """Masks of the steady decode steps without and with a graph, and the time of all steps."""
    steps, kept = view.states.steps, view.steady_slice
    decodes, launches = steps.kind[kept] == DECODE, view.fact[kept] > 0
    return decodes & ~launches, decodes & launches, (steps.end - steps.start)[kept]


def _measure_loss(view: View[GraphLaunches]) -> float:
    """What the steps without a graph take longer than those with one, in the mean of all (ms)."""
    if not view.states.steps.are_iterations:
        return 0.0
    missed, replayed, time = _split(view)
    if np.sum(replayed) < FEWEST or not missed.any():
        return 0.0
    longer = np.maximum(time[missed] - float(np.median(time[replayed])), 0)
    return float(longer.sum()) / len(time) / 1e6


def _find_excess(view: View[GraphLaunches]) -> IntArray:
    """ns by step that those without a graph take longer than the median one with it."""
    steps = view.states.steps
    if not steps.are_iterations:
        return np.zeros(len(steps), np.int64)
    time, (_, replayed, _) = steps.end - steps.start, _split(view)
    usual = np.median(time[view.steady_slice][replayed]) if replayed.any() else time.max(initial=0)
    missed = (steps.kind == DECODE) & (view.fact == 0)
    return np.where(missed, np.maximum(time - int(usual), 0), 0)


def _list_evidence(views: Sequence[View[GraphLaunches]]) -> tuple[str, ...]:
    worst = max(views, key=_measure_loss)
    missed, replayed, time = _split(worst)
    late, usual = (float(np.median(time[rows])) / 1e6 for rows in (missed, replayed))
    batch = worst.states.steps.batch[worst.steady_slice]
    sizes = (_tell_batches(batch[rows]) for rows in (missed, replayed))
    return (
        f"rank {worst.rank}: {np.sum(missed)} of {np.sum(missed | replayed)} decode steps launch "
        f"their kernels one by one: {late:.2f} ms, and {usual:.2f} ms with a graph (medians)",
        "{} without, {} with a graph".format(*sizes),
    )


def _tell_batches(batch: IntArray) -> str:
    low, high = int(batch.min()), int(batch.max())
    if low == NOT_TOLD:
        return "batches that no mark tells"
    return f"batches of {low}" if low == high else f"batches of {low} to {high}"


RULE = FindingRule(
    kind="graph_miss",
    title="Decode steps without a CUDA graph",
    collect=collect_graph_launches,
    judge=judge_graph_miss,
    rows=(
        FindingRow(
            causes=("batch",),
            when=(
                "decode steps of an engine launch their kernels one by one, and others launch a "
                "CUDA graph. The gain is that of one launch in place of theirs"
            ),
        ),
    ),
    needs_all_kernels=True,
    time_ms=lambda view, _: _measure_loss(view),
    edit=lambda _finding: MISSED_GRAPHS,
    excess=_find_excess,
)
