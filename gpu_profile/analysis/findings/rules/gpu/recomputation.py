"""Finding recomputation: kernels of the forward pass that run again in the backward pass."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, NO_CALL, Activity
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.place_on_gpu import find_op_steps
from gpu_profile.analysis.arrays.types import IntArray, Places
from gpu_profile.analysis.findings.evidence.costly_kernels import judge_costly_kernels
from gpu_profile.analysis.findings.facts.windows import list_windows
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.modules.marks import load_marks
from gpu_profile.analysis.replay.edits.kernels.recomputation import RECOMPUTATION
from gpu_profile.analysis.replay.edits.kernels.repeated_rows import (
    LEAST_NAMES,
    LEAST_ROW,
    PassLaunches,
    mark_repeated,
)
from gpu_profile.analysis.replay.rank.build_graph import find_places
from gpu_profile.analysis.store.database import Database

ADVICE = (
    "This trades time for memory. If the GPU has memory left, keep the activations: "
    "model.gradient_checkpointing_disable() or gradient_checkpointing=False of transformers, "
    "set_grad_checkpointing(False) of timm, no torch.utils.checkpoint; or checkpoint fewer layers, "
    "as few as the memory allows."
)


SAMPLED = 4
"""Steps in which nothing runs again, of as many evenly spaced ones, stand for all: to look at each
of a million launches takes 2 s."""


@dataclass(frozen=True, eq=False)
class Recomputation:
    """By window: the `count` of the operations that run again, their `time` (ns), that of the
    forward pass, and the count of `all` operations.
    """

    count: IntArray
    time: IntArray
    forward: IntArray
    all: IntArray


def collect_recomputation(activity: Activity, _: Database) -> Recomputation:
    """What one rank computes again."""
    again, forward = _find_rows(activity)
    windows, start, length = list_windows(activity), activity.ops.start, activity.ops.length
    return Recomputation(
        count=windows.count(start[again]),
        time=windows.sum(start[again], length[again].astype(np.int64)),
        forward=windows.sum(start[forward], length[forward].astype(np.int64)),
        all=windows.count(start),
    )


def _find_rows(activity: Activity) -> tuple[IntArray, IntArray]:
    """The operations that run again, and those of forward passes; none without marks."""
    nothing = np.empty(0, np.int64), np.empty(0, np.int64)
    if load_marks(activity.ranges) is None:
        return nothing
    steps, ops = find_steps(activity), activity.ops
    step = find_op_steps(activity, steps.host_start, steps.host_end)
    rows = np.flatnonzero((step >= 0) & (ops.call != NO_CALL) & (ops.kind != COMMUNICATION))
    sampled = np.linspace(0, len(steps), SAMPLED + 2).astype(np.int64)[1:-1]
    if not len(_split_rows(activity, rows[np.isin(step[rows], sampled)], step)[0]):
        return nothing
    return _split_rows(activity, rows, step)


def _split_rows(activity: Activity, rows: IntArray, step: Places) -> tuple[IntArray, IntArray]:
    """Of these operations those that run again, and those of forward passes. `step`: of each."""
    ops = activity.ops
    rows = rows[np.lexsort((activity.launch_starts[rows], step[rows]))]
    thread, launched = activity.launcher_of(rows), activity.launch_starts[rows]
    place, texts = find_places(activity, thread, launched)
    size = ops.grid[rows].astype(np.int64) + ops.bytes[rows]
    places = [texts[code] for code in range(len(texts))]
    launches = PassLaunches(step[rows], thread, ops.full_name[rows], size, place, places)
    again = launches.is_backward & mark_repeated(launches)
    return rows[again], rows[launches.is_forward]


def judge_recomputation(views: Sequence[View[Recomputation]]) -> Judgement:
    """Find ranks that compute much of the forward pass twice."""
    return judge_costly_kernels(
        "recomputation", "checkpoint", views, _measure_ms, _list_evidence, ADVICE
    )


def _list_evidence(view: View[Recomputation]) -> tuple[str, ...]:
    fact = view.fact
    share = 100 * view.mean(fact.time) / max(1.0, view.mean(fact.forward))
    line = (
        f"rank {view.rank}: {_measure_gpu_ms(view):.2f} of {view.step_ms:.2f} ms a step in "
        f"{view.mean(fact.count):.0f} kernels of the backward pass that repeat rows of the forward "
        f"pass of the same step, {share:.0f} % of its time on the GPU, as checkpoints of "
        "activations do to save memory"
    )
    return (
        line,
        "the gain is an estimate: hooks of checkpoints with use_reentrant=False also take a part "
        "of the host's other work in both passes; at the least only what runs again goes",
    )


def _measure_gpu_ms(view: View[Recomputation]) -> float:
    return view.mean(view.fact.time) / 1e6


def _measure_ms(view: View[Recomputation]) -> float:
    """The most that it costs, in ms a step: the GPU's time, or the host's for the launches."""
    part = view.mean(view.fact.count) / max(1.0, view.mean(view.fact.all))
    return max(_measure_gpu_ms(view), part * view.host_ms)


RULE = FindingRule(
    kind="recomputation",
    title="Recomputation",
    collect=collect_recomputation,
    judge=judge_recomputation,
    time_ms=lambda view, _: _measure_ms(view),
    rows=(
        FindingRow(
            causes=("checkpoint",),
            when=(
                "the backward pass runs kernels of the forward pass again, as gradient "
                f"checkpointing does: rows of {LEAST_ROW} operations or more, with the names and "
                f"grids of a row in the forward pass of the same step, and {LEAST_NAMES} names "
                "among them. It needs the marks of phases. It saves memory, so it is a trade and "
                "no mistake: the cost is what the step wins if the activations fit into the "
                "memory. The gain is an estimate: checkpoints with `use_reentrant=False` also slow "
                "the host's other work in both passes, by hooks for each saved tensor"
            ),
        ),
    ),
    edit=lambda _finding: RECOMPUTATION,
)
