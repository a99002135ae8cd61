"""Finding allocation: memory that is allocated and freed in each step."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import ALLOCATION_NAME, Activity
from gpu_profile.analysis.activity.idle.gaps import find_gaps
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.windows import Windows, list_host_windows, list_windows
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import LEAST_FREQUENCY, View
from gpu_profile.analysis.replay.edits.causes import ALLOCATIONS
from gpu_profile.analysis.store.database import Database

# Of an API function, as CUPTI reports it: cudaFree_v3020.
_VERSION = re.compile(r"_v\d+$")
MOST_NAMES = 3
ADVICE = (
    "Keep memory over the steps: no torch.cuda.empty_cache() in the loop, buffers that are made "
    "once, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True where the sizes of tensors change, "
    "in CUDA C++ cudaMallocAsync from a pool that keeps its memory (its release threshold, "
    "cudaMemPoolAttrReleaseThreshold, is 0 by default)."
)


@dataclass(frozen=True, eq=False)
class CallTime:
    """The calls of one name, by window: their number, and ns in them."""

    count: IntArray
    time: IntArray


@dataclass(frozen=True, eq=False)
class Allocations:
    """`calls` by name; `idle`: ns by window in which the GPU is idle and the host allocates or
    frees.
    """

    calls: Mapping[str, CallTime]
    idle: IntArray


def collect_allocations(activity: Activity, _: Database) -> Allocations:
    """The calls of one rank that allocate and free memory."""
    calls = activity.calls
    chosen = calls.match_names(activity.names, ALLOCATION_NAME)
    gaps = find_gaps(activity)
    busy = Intervals.union(calls.start[chosen], calls.end[chosen])
    idle = list_windows(activity).sum(gaps.start, busy.within(gaps.start, gaps.end))
    return Allocations(_sum_calls(activity, np.flatnonzero(chosen)), idle)


def _sum_calls(activity: Activity, rows: IntArray) -> dict[str, CallTime]:
    calls, windows = activity.calls, list_host_windows(activity)
    return {
        _VERSION.sub("", activity.names[code]): _sum_rows(
            activity, windows, rows[calls.name[rows] == code]
        )
        for code in list_distinct(calls.name[rows])
    }


def _sum_rows(activity: Activity, windows: Windows, rows: IntArray) -> CallTime:
    start = activity.calls.start[rows]
    return CallTime(windows.count(start), windows.sum(start, activity.calls.end[rows] - start))


def judge_allocations(views: Sequence[View[Allocations]]) -> Judgement:
    """Find ranks that allocate in every other step while the GPU idles."""
    slow = [view for view in views if view.has_steps and _is_habit(view) and _idle_ms(view)]
    if not slow:
        return Judgement()
    ranks = tuple(sorted({view.rank for view in slow}))
    evidence = _list_evidence(max(slow, key=_idle_ms))
    return Judgement((Finding("allocation", ranks, "calls", evidence, ADVICE),))


def _is_habit(view: View[Allocations]) -> bool:
    counts = [call.count for call in view.fact.calls.values()]
    return bool(counts) and view.frequency(np.sum(counts, axis=0)) >= LEAST_FREQUENCY


def _idle_ms(view: View[Allocations]) -> float:
    return view.mean(view.fact.idle) / 1e6


def _list_evidence(view: View[Allocations]) -> tuple[str, ...]:
    calls = view.fact.calls
    habits = [name for name in calls if view.frequency(calls[name].count) >= LEAST_FREQUENCY]
    names = sorted(habits, key=lambda name: (-view.mean(calls[name].time), name))[:MOST_NAMES]
    lines = [
        f"rank {view.rank}: {name}, {view.mean(calls[name].count):.1f} times a step, took the host "
        f"{view.mean(calls[name].time) / 1e6:.2f} ms a step"
        for name in names
    ]
    # cudaFreeAsync does not wait, and the pool's late wait is no allocating call.
    waiting = "; cudaFree also waits for all work of the GPU" if "cudaFree" in habits else ""
    return (
        f"rank {view.rank}: {_idle_ms(view):.2f} of {view.step_ms:.2f} ms a step idle while the "
        f"host allocated or freed memory{waiting}",
        *lines,
    )


RULE = FindingRule(
    kind="allocation",
    title="Memory allocations",
    collect=collect_allocations,
    judge=judge_allocations,
    needs_all_kernels=True,
    time_ms=lambda view, _: _idle_ms(view),
    edit=lambda _finding: ALLOCATIONS,
    rows=(
        FindingRow(
            causes=("calls",),
            when=(
                "cudaMalloc, cudaFree, cudaHostAlloc and their like are called in every other step "
                "or more, and the GPU idles while the host is in them"
            ),
        ),
    ),
)
