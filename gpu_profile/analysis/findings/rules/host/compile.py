"""Finding compile: the host compiles, or tunes kernels, in the middle of the run."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, NO_CALL, Activity
from gpu_profile.analysis.activity.idle.gaps import STALL, Gaps, find_gaps
from gpu_profile.analysis.activity.nvtx_ranges import FOREVER
from gpu_profile.analysis.activity.start_up import XLA, steady_window
from gpu_profile.analysis.arrays.columns import find_first_rows, is_among
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.findings.facts.captures import find_captures
from gpu_profile.analysis.findings.facts.windows import list_host_windows, list_windows
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.idle_time import judge_state
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.host.compilations import find_compilations, find_tuning
from gpu_profile.analysis.host.pauses import Compilation, list_compilations
from gpu_profile.analysis.host.stacks import load_stacks
from gpu_profile.analysis.replay.edits.causes import LONE_PAUSES
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import process_of

LEAST_STEPS = 2
"""With a compilation, or tuning: one alone proves no habit."""
HALF = 0.5
MOST_NAMES = 3
LEAST_PAUSE_NS = 10_000_000
"""The driver loads a kernel of a library in less, and Triton, NVRTC and XLA compile one in more."""
# Driver calls that load what was compiled, and torch's ranges while it compiles (torch 2.4 to
# 2.11, under emit_nvtx).
LOADS = re.compile(r"cu(da)?LibraryLoadData|cuModuleLoad(Data|FatBinary|_|$)")
TORCH = re.compile(r"(\w+:)?(_compile\.compile_inner|triton:compile)|.*\(dynamo_timed\)$")
ADVICE = (
    "Keep shapes and Python values of compiled functions the same over the steps: pad to a few "
    "lengths, torch.compile(dynamic=True), mark_dynamic, static arguments that do not change; "
    "TORCH_LOGS=recompiles and JAX_LOG_COMPILES=1 name the reason of each."
)
TUNING_ADVICE = (
    "Tune a kernel for few sizes: round what `key` of triton.autotune names up, such as to the "
    "next power of 2; or choose one configuration. TRITON_PRINT_AUTOTUNING=1 names each."
)


@dataclass(frozen=True, eq=False)
class Compilations:
    """`idle`: ns by window in which the GPU idles while the host compiles. `new_kernels`: kernels
    that are launched for the first time after such idle time, by window. `tuning_ns`: ns by the
    host's window in which it tunes kernels on the GPU. `functions`: those that torch compiled in
    the steady part, the longest first.
    """

    idle: IntArray
    new_kernels: IntArray
    tuning_ns: IntArray
    functions: tuple[str, ...] = ()


def collect_compilations(activity: Activity, database: Database) -> Compilations:
    """The idle gaps of one rank in which its host compiled."""
    gaps, windows = find_gaps(activity), list_windows(activity)
    stalls = np.flatnonzero(gaps.cause == STALL)
    start, end = gaps.start[stalls], gaps.end[stalls]
    proven = _find_proven(activity, database).within(start, end)
    # What a capture launches for the first time is loaded in it, and goes with it.
    loads = _loads_code(activity, gaps, stalls) & ~find_captures(activity).touches(start, end)
    idle = np.zeros(len(gaps.start), np.int64)
    idle[stalls] = np.where(loads, end - start, proven)
    first = _find_first_launches(activity)
    gap = np.searchsorted(gaps.end, activity.ops.start[first], "right") - 1
    is_new = (gap >= 0) & (idle[gap] > 0) if len(gaps.end) else np.zeros(len(first), bool)
    new = gaps.start[gap[is_new]]
    names = _name_functions(activity, database)
    on_host = list_host_windows(activity)
    tuned = _find_tuned(activity, database).within(on_host.start, on_host.end)
    return Compilations(windows.sum(gaps.start, idle), windows.count(new), tuned, names)


def _find_proven(activity: Activity, database: Database) -> Intervals:
    """The time in which marks, samples of Python, or ranges of XLA and torch show a compilation."""
    ranges = activity.ranges
    named = [c for c, name in enumerate(ranges.names) if XLA.match(name) or TORCH.match(name)]
    rows = np.flatnonzero(is_among(ranges.name, named) & (ranges.end != FOREVER))
    marks = _list_marks(activity, database)
    start = [ranges.start[rows], np.array([mark.start for mark in marks], np.int64)]
    end = [ranges.end[rows], np.array([mark.end for mark in marks], np.int64)]
    for stacks in load_stacks(database):
        sampled = find_compilations(stacks, activity.calls.threads)
        start.append(sampled.start)
        end.append(sampled.end)
    return Intervals.union(np.concatenate(start), np.concatenate(end))


def _find_tuned(activity: Activity, database: Database) -> Intervals:
    tuned = [find_tuning(stacks, activity.calls.threads) for stacks in load_stacks(database)]
    none = np.empty(0, np.int64)
    start, end = [each.start for each in tuned], [each.end for each in tuned]
    return Intervals.union(np.concatenate([none, *start]), np.concatenate([none, *end]))


def _list_marks(activity: Activity, database: Database) -> list[Compilation]:
    marks = list_compilations(database)
    process = process_of(np.array([mark.thread for mark in marks], np.int64))
    return [mark for mark, of in zip(marks, process, strict=True) if of == activity.process]


def _name_functions(activity: Activity, database: Database) -> tuple[str, ...]:
    first, last = steady_window(activity)
    times = Counter[str]()
    for mark in _list_marks(activity, database):
        if first <= mark.start < last:
            times[str(mark.function)] += mark.end - mark.start
    return tuple(sorted(times, key=lambda name: (-times[name], name))[:MOST_NAMES])


@once_each
def _find_first_launches(activity: Activity) -> IntArray:
    """The first operation of each kernel, by its full name."""
    kernels = np.flatnonzero(activity.ops.kind == COMPUTE)
    return np.sort(kernels[find_first_rows(activity.ops.full_name[kernels])])


def _loads_code(activity: Activity, gaps: Gaps, rows: IntArray) -> Flags:
    """A mask of the gaps that are long, and in which the host loads code and mostly does something
    else, of these rows.

    A library that compiles a kernel for each new shape (cuDNN's attention) names all of them alike.
    """
    ops, calls = activity.ops, activity.calls
    loads = np.flatnonzero(calls.match_names(activity.names, LOADS))
    busy = Intervals.union(calls.start[loads], calls.end[loads])
    start, end, next_op = gaps.start[rows], gaps.end[rows], gaps.next_op[rows]
    until = np.where(ops.call[next_op] == NO_CALL, end, activity.launch_starts[next_op])
    inside = busy.within(start, np.maximum(until, start))
    length = end - start
    long = (length >= LEAST_PAUSE_NS) & (inside < HALF * length)
    return np.asarray(long & (inside > 0), np.bool_)


def judge_compilations(views: Sequence[View[Compilations]]) -> Judgement:
    """Find ranks whose hosts compile in several steady steps, and whose pauses are mostly that; and
    those that tune kernels in several.
    """
    slow = [view for view in views if view.has_steps and _is_slow(view)]
    tuning = [view for view in views if view.has_steps and _tunes(view)]
    parts = (
        judge_state("compile", "recompilation", slow, _list_evidence, ADVICE),
        judge_state("compile", "autotuning", tuning, _list_tuning, TUNING_ADVICE),
    )
    return Judgement(tuple(finding for part in parts for finding in part.findings))


def _is_slow(view: View[Compilations]) -> bool:
    idle, stalls = _idle_ms(view), view.steady(view.split.spent["idle_stall"])
    if np.count_nonzero(view.steady(view.fact.idle)) < LEAST_STEPS:
        return False
    return view.is_costly(idle) and idle >= HALF * float(np.mean(stalls)) / 1e6


def _tunes(view: View[Compilations]) -> bool:
    is_habit = np.count_nonzero(_mark_tuned(view)) >= LEAST_STEPS
    return bool(is_habit) and view.is_costly(_tuned_ms(view))


def _mark_tuned(view: View[Compilations]) -> Flags:
    """A mask of the steady steps with tuning. Less than a sample stands for may be of another."""
    return np.asarray(view.steady(view.fact.tuning_ns) >= LEAST_PAUSE_NS, np.bool_)


def _tuned_ms(view: View[Compilations]) -> float:
    """The time of the tuning, but no more than its steps take longer than the others: before it the
    host waits for those.
    """
    time, tuned = view.steady(view.states.end - view.states.start), _mark_tuned(view)
    usual = 0 if tuned.all() else int(np.median(time[~tuned]))
    longer = np.minimum(view.steady(view.fact.tuning_ns), np.maximum(time - usual, 0))
    return float(np.sum(longer[tuned])) / len(tuned) / 1e6


def _idle_ms(view: View[Compilations]) -> float:
    """The mean of all steady steps: a compilation is rare, and long."""
    return float(np.mean(view.steady(view.fact.idle))) / 1e6


def _list_evidence(views: Sequence[View[Compilations]]) -> tuple[str, ...]:
    view = max(views, key=_idle_ms)
    idle = view.steady(view.fact.idle)
    lines = [
        f"the host compiled in {np.count_nonzero(idle)} of {len(idle)} steps, and the GPU idled "
        f"{idle.sum() / 1e6:.0f} ms in all, {_idle_ms(view):.2f} ms a step"
    ]
    if view.fact.functions:
        lines.append(f"compiled {', '.join(view.fact.functions)}")
    new = int(view.steady(view.fact.new_kernels).sum())
    if new:
        lines.append(f"{new} kernels ran for the first time right after it")
    return tuple(f"rank {view.rank}: {line}" for line in lines)


def _list_tuning(views: Sequence[View[Compilations]]) -> tuple[str, ...]:
    view = max(views, key=_tuned_ms)
    tuned = _mark_tuned(view)
    return (
        f"rank {view.rank}: the host tuned kernels in {np.count_nonzero(tuned)} of {len(tuned)} "
        f"steps, which took {_tuned_ms(view):.2f} ms a step longer than the others, in the mean of "
        "all",
    )


def _explains(compilations: Sequence[Finding], other: Finding) -> bool:
    """Whether these compilations are most of another finding's pauses. CUDA graphs of what is
    compiled anew, as XLA makes them, are captured anew.
    """
    compiles = [finding for finding in compilations if finding.cause == "recompilation"]
    ranks = {rank for finding in compiles for rank in finding.ranks}
    is_pause = other.kind == "idle" and other.cause in ("data", "host", "capture")
    return is_pause and set(other.ranks) <= ranks


RULE = FindingRule(
    kind="compile",
    title="Recompilation",
    collect=collect_compilations,
    judge=judge_compilations,
    explains=_explains,
    needs_all_kernels=True,
    time_ms=lambda view, cause: _tuned_ms(view) if cause == "autotuning" else _idle_ms(view),
    edit=lambda finding: None if finding.cause == "autotuning" else LONE_PAUSES,
    rows=(
        FindingRow(
            causes=("recompilation",),
            when=(
                "the host compiles in two or more steady steps while the GPU idles, and that "
                "is half of what it idles by cause `stall`. Shown "
                "by marks and samples of Python (`--annotate`), by ranges of XLA and torch, and by "
                "a pause of 10 ms in which the driver loads code, before the next launch, but for "
                "one in which a CUDA graph is captured"
            ),
        ),
        FindingRow(
            causes=("autotuning",),
            when=(
                "samples of Python show that the host tries configurations of a Triton kernel in "
                "two or more steady steps. The limit is the time in it, the GPU's work included"
            ),
        ),
    ),
)
