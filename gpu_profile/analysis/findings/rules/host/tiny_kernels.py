"""Finding tiny_kernels: kernels that cost the host more time than the GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, NO_CALL, Activity
from gpu_profile.analysis.activity.idle.gaps import LATENCY, LAUNCH, find_gaps
from gpu_profile.analysis.arrays.columns import is_among, narrow_column
from gpu_profile.analysis.arrays.intervals import PART
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.findings.facts.windows import is_in_steady_part, list_windows
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.idle_time import judge_state
from gpu_profile.analysis.findings.places import find_longest_gap
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.modules.module_times import sum_by_module
from gpu_profile.analysis.replay.edits.causes import TINY_LAUNCHES
from gpu_profile.analysis.replay.edits.loops.launch_rows import mark_runs
from gpu_profile.analysis.replay.edits.loops.narrow_kernels import TINY_NS, find_narrow_kernels
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.target import count_multiprocessors

# An ordinary layer launches some tens of small kernels, and a step some hundreds. Few of them are
# launched in rows: 0 to 55 % of all kernels in 47 programs, 76 to 98 % in three with loops.
# 70 % of the kernels of a RoBERTa whose AdamW has a group for each weight are small in a batch, and
# 48 % are tiny. In 221 programs this count finds one more that has a loop in its optimizer.
TINY_PER_STEP, TINY_PART = 500, 0.6
TINY_ADVICE = (
    "Fuse them: torch.compile, fused or foreach optimizers, CUDA graphs, batched operations "
    "in place of loops over tensors."
)


@dataclass(frozen=True, eq=False)
class TinyKernels:
    """Kernels below TINY_NS. By window: their `count`, the number of `narrow` ones that are as
    small in a batch, of tiny ones `in_rows`, and `idle`, the ns of the gaps right before all these
    that slow launches explain. `modules`: the number of tiny ones in the steady part by module.
    """

    count: IntArray
    narrow: IntArray
    in_rows: IntArray
    idle: IntArray
    modules: Mapping[str, int]


def collect_tiny_kernels(activity: Activity, database: Database) -> TinyKernels:
    """The tiny kernels of one rank."""
    ops = activity.ops
    is_kernel = (ops.kind == COMPUTE) | (ops.kind == COMMUNICATION)
    is_tiny = is_kernel & (ops.length < TINY_NS)
    narrow = find_narrow_kernels(activity, count_multiprocessors(database, activity.gpu))
    is_small = is_tiny.copy()
    is_small[narrow] = True
    windows = list_windows(activity)
    in_rows = windows.count_rows(ops.start, _mark_rows(activity, is_tiny))
    steady = narrow_column(np.flatnonzero(is_tiny & is_in_steady_part(activity, ops.start)))
    return TinyKernels(
        count=windows.count_rows(ops.start, is_tiny),
        narrow=windows.count(ops.start[narrow]),
        in_rows=in_rows,
        idle=_sum_idle(activity, is_small),
        modules=sum_by_module(activity, steady, np.broadcast_to(np.int64(1), len(steady))),
    )


def _sum_idle(activity: Activity, is_tiny: Flags) -> IntArray:
    """The ns by window of the gaps before these kernels that slow launches explain."""
    gaps = find_gaps(activity)
    idle = gaps.end - gaps.start
    idle *= is_among(gaps.cause, (LAUNCH, LATENCY)) & is_tiny[gaps.next_op]
    return list_windows(activity).sum(gaps.start, idle)


def _mark_rows(activity: Activity, is_tiny: Flags) -> Flags:
    """A mask of the tiny kernels that a thread launches in rows, one by one."""
    calls, call = activity.calls, activity.ops.call
    has_call = call != NO_CALL
    single = _launch_once(activity, has_call) & _launch_once(activity, has_call & is_tiny)
    in_row = np.zeros(len(calls.start) + 1, bool)  # the last cell is of NO_CALL (-1)
    for thread in activity.launching:
        launches = activity.launches_op & (calls.thread == thread)
        chosen = single[launches]
        in_row[:-1][launches] = mark_runs(chosen, np.zeros(len(chosen), np.int8))
    return in_row[call]


def _launch_once(activity: Activity, chosen: Flags) -> Flags:
    """A mask of the calls that launch one of the chosen operations, and no more."""
    call, count = activity.ops.call[chosen], len(activity.calls.start)
    launches = np.zeros(count, bool)
    launches[call] = True
    if np.count_nonzero(launches) == len(call):  # no graph, or none of several operations
        return launches
    last = np.zeros(count, np.int32)
    parts = [slice(first, first + PART) for first in range(0, len(call), PART)]
    for part in parts:
        last[call[part]] = np.arange(
            part.start, min(part.stop, len(call))
        )  # of several operations the last stays
    for part in parts:
        again = last[call[part]] != np.arange(part.start, min(part.stop, len(call)))
        launches[call[part][again]] = False
    return launches


def judge_tiny_kernels(views: Sequence[View[TinyKernels]]) -> Judgement:
    """Find many kernels that cost the host more time than the GPU, with idle gaps before them."""
    tiny_views = [view for view in views if view.is_costly(_idle_ms(view)) and _is_many(view)]
    return judge_state("tiny_kernels", "launch", tiny_views, _list_evidence, TINY_ADVICE)


def _idle_ms(view: View[TinyKernels]) -> float:
    return view.mean(view.fact.idle) / 1e6


def _is_many(view: View[TinyKernels]) -> bool:
    small = view.mean(view.fact.count + view.fact.narrow)
    least = TINY_PART * view.mean(view.common.kernel_count)
    return (small >= TINY_PER_STEP and small >= least) or view.mean(view.fact.in_rows) >= least > 0


def _list_evidence(views: Sequence[View[TinyKernels]]) -> tuple[str, ...]:
    worst = max(views, key=_idle_ms)
    tiny, kernels = worst.mean(worst.fact.count), worst.mean(worst.common.kernel_count)
    modules = worst.fact.modules
    name = max(modules, key=lambda key: (modules[key], key), default="")
    total = max(int(worst.fact.count[0]), 1)
    share, waited = 100 * modules.get(name, 0) / total, 100 * _idle_ms(worst) / worst.step_ms
    narrow = worst.mean(worst.fact.narrow)
    others = f", {narrow:.0f} others would in a batch that fills the GPU," if narrow else ""
    evidence = (
        f"rank {worst.rank}: {tiny:.0f} of {kernels:.0f} kernels a step take under "
        f"{TINY_NS / 1e3:.0f} us{others or ','} and for {waited:.0f} % of the step the GPU waits "
        "for the next of them",
    )
    if not name:
        return evidence
    return (*evidence, f"rank {worst.rank}: {share:.0f} % of them in {name}")


RULE = FindingRule(
    kind="tiny_kernels",
    title="Tiny kernels",
    collect=collect_tiny_kernels,
    judge=judge_tiny_kernels,
    rows=(
        FindingRow(
            causes=("launch",),
            when=(
                "500 kernels a step and more take under 5 us, or would in a batch that fills the "
                "GPU, and they are 60 % of all kernels; or 60 % of all take under 5 us, launched "
                "in rows of six and more. The GPU waits for the next of them"
            ),
        ),
    ),
    holds_tracing_cost=True,
    needs_all_kernels=True,
    time_ms=lambda view, _: _idle_ms(view),
    edit=lambda _finding: TINY_LAUNCHES,
    place=find_longest_gap(LAUNCH),
)
