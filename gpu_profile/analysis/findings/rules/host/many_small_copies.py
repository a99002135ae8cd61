"""Finding many_small_copies: many small copies to the GPU, in an engine's iteration or in rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.activity.activity import (
    COMPUTE,
    COPY,
    COPY_TO_DEVICE,
    NO_CALL,
    SET,
    SYNC_NAME,
    Activity,
)
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES, blocking_calls
from gpu_profile.analysis.arrays.types import Flags, IntArray, Places
from gpu_profile.analysis.findings.facts.windows import list_host_windows, list_windows
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.idle_time import judge_state
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.edits.calls import LATE_NS
from gpu_profile.analysis.replay.edits.iterations import FEW_COPIES
from gpu_profile.analysis.replay.edits.loops.launch_rows import mark_runs
from gpu_profile.analysis.replay.edits.loops.read_loops import MOST_LAUNCHES, MOST_NS
from gpu_profile.analysis.replay.plan.make_plan import TOKEN_WAITS
from gpu_profile.analysis.store.database import Database

MANY = 16
"""In a step: engines copy tokens, positions, lengths and tables of blocks, some 5 to 10, and a
training its batch."""
ONE = 0.5
"""In the mean of all steps."""
COPY_ADVICE = (
    "Pack what a step needs into one pinned buffer and copy that at once; keep on the GPU what "
    "does not change, and update it there; give a kernel its few numbers as arguments."
)


@dataclass(frozen=True, eq=False)
class SmallCopies:
    """Copies to the GPU under STAGED_BYTES bytes: their number by window, that of those `in_rows`
    and of those `in_turns` of a loop, and their usual bytes. `waits`: other calls by window that
    held the host.
    """

    count: IntArray
    in_rows: IntArray
    in_turns: IntArray
    bytes: int
    waits: IntArray


def collect_small_copies(activity: Activity, _: Database) -> SmallCopies:
    """The small copies to the GPU of one rank."""
    ops = activity.ops
    small = (ops.kind == COPY) & (ops.copy_kind == COPY_TO_DEVICE) & (ops.bytes < STAGED_BYTES)
    usual = int(np.median(ops.bytes[small])) if small.any() else 0
    waits = _find_other_waits(activity, ops.call[small & (ops.call != NO_CALL)])
    windows = list_windows(activity)
    return SmallCopies(
        windows.count(ops.start[small]),
        windows.count(np.sort(ops.start[_find_rows(activity, small)])),
        windows.count(np.sort(ops.start[_find_turns(activity, small)])),
        usual,
        list_host_windows(activity).count(waits),
    )


def _find_rows(activity: Activity, small: Flags) -> IntArray:
    """The copies that a thread makes in rows, one by one, with no other operation between."""
    if not small.any():
        return np.empty(0, np.int64)
    thread = activity.launcher_of(np.arange(len(small)))
    order = np.lexsort((activity.launch_starts[:], thread))
    return np.asarray(order[mark_runs(small[order], thread[order])], np.int64)


def _find_turns(activity: Activity, small: Flags) -> IntArray:
    """The copies that begin the turns of a loop: each turn has a few short kernels. Turns in which
    the host waits are told by these waits.
    """
    if not small.any():
        return np.empty(0, np.int64)
    thread = activity.launcher_of(np.arange(len(small)))
    order = np.lexsort((activity.launch_starts[:], thread))
    copies = np.flatnonzero(small[order])
    held = np.zeros(len(activity.calls.start) + 1, bool)  # the last cell is of NO_CALL (-1)
    held[_list_awaited(activity)] = True
    others = ~small & ~_mark_short_kernels(activity) | held[activity.ops.call]
    before = np.r_[0, np.cumsum(others[order])]
    begin, end = copies[:-1], copies[1:]
    is_turn = (end - begin - 1 <= MOST_LAUNCHES) & (end - begin > 1)
    is_turn &= (before[begin] == before[end]) & (thread[order][begin] == thread[order][end])
    return np.asarray(order[begin[mark_runs(is_turn, thread[order][begin])]], np.int64)


def _list_awaited(activity: Activity) -> IntArray:
    """The calls that only wait, and those that they wait for: the ones before in their thread."""
    calls, blocking = activity.calls, blocking_calls(activity)
    held = blocking.call[calls.match_names(activity.names, SYNC_NAME)[blocking.call]]
    order = np.argsort(calls.thread, kind="stable")  # calls are sorted by start
    place = np.argsort(order)
    return np.union1d(held, order[np.maximum(place[held] - 1, 0)])


def _mark_short_kernels(activity: Activity) -> Flags:
    ops = activity.ops
    return np.asarray(((ops.kind == COMPUTE) | (ops.kind == SET)) & (ops.length <= MOST_NS), bool)


def _find_other_waits(activity: Activity, copies: Places) -> IntArray:
    """The starts of the calls that held the host and are neither these copies nor right after one,
    as the wait of a copy from pageable memory is.
    """
    calls, blocking = activity.calls, blocking_calls(activity)
    held = blocking.end - blocking.start >= LATE_NS
    if not len(copies) or not held.any():
        return blocking.start[held]
    order = np.argsort(calls.thread, kind="stable")  # calls are sorted by start
    copied = np.zeros(len(order), bool)
    copied[copies] = True
    of_copies = np.zeros(len(order), bool)
    of_copies[order] = copied[order] | np.r_[False, copied[order]][:-1]
    return blocking.start[held & ~of_copies[blocking.call]]


def judge_small_copies(views: Sequence[View[SmallCopies]]) -> Judgement:
    """Find iterations with many small copies, steps with rows of them, and loops of copies."""
    many = [view for view in views if view.has_steps and _is_many(view)]
    judged = judge_state("many_small_copies", "copy", many, _list_evidence, COPY_ADVICE)
    if not all(_waits_for_tokens(view) for view in many):
        return judged
    # The host waits for these copies and for the tokens alone.
    findings = (replace(finding, includes=("synchronization",)) for finding in judged.findings)
    return replace(judged, findings=tuple(findings))


def _is_many(view: View[SmallCopies]) -> bool:
    """Whether a step has many, or is itself a turn of a loop with one."""
    return _count(view) >= MANY or _count_turns(view) >= ONE


def _count(view: View[SmallCopies]) -> float:
    """Those of an iteration, or of the rows of a step."""
    are_iterations = view.states.steps.are_iterations
    return view.mean(view.fact.count if are_iterations else view.fact.in_rows)


def _count_turns(view: View[SmallCopies]) -> float:
    return 0.0 if view.states.steps.are_iterations else view.mean(view.fact.in_turns)


def _waits_for_tokens(view: View[SmallCopies]) -> bool:
    """Whether an engine waits for its tokens alone, but for these copies."""
    return view.states.steps.are_iterations and view.mean(view.fact.waits) < TOKEN_WAITS


def _list_evidence(views: Sequence[View[SmallCopies]]) -> tuple[str, ...]:
    worst = max(views, key=lambda view: max(_count(view), _count_turns(view)))
    ranks, of_bytes = format_ranks(view.rank for view in views), f"{worst.fact.bytes} bytes"
    if _count_turns(worst) > _count(worst):
        count = f"{_count_turns(worst):.0f} a step"
        where = "each before a few short kernels"
        return (f"{ranks}: small copies to the GPU, {where}, {count}, of {of_bytes} in the median",)
    part = "an iteration" if worst.states.steps.are_iterations else "a step, one after the other"
    copies = f"{_count(worst):.0f} copies to the GPU {part}"
    return (f"{ranks}: {copies}, of {of_bytes} in the median",)


def _explains(findings: Sequence[Finding], other: Finding) -> bool:
    """The waits for these copies are told with them."""
    ranks = {rank for finding in findings for rank in finding.ranks}
    includes = any(other.kind in finding.includes for finding in findings)
    return includes and ranks.issuperset(other.ranks)


RULE = FindingRule(
    kind="many_small_copies",
    title="Many small copies",
    collect=collect_small_copies,
    judge=judge_small_copies,
    rows=(
        FindingRow(
            causes=("copy",),
            when=(
                "an engine copies less than 64 KiB to the GPU 16 times or more in an iteration, or "
                "another program in a step, in rows of six and more with nothing else between; or "
                "each of six turns of a loop or more copies so, without a wait, before at most "
                "three kernels of 10 us. The gain is that of one copy in place of those between "
                "two kernels, or of all in the loop"
            ),
        ),
    ),
    explains=_explains,
    edit=lambda _finding: FEW_COPIES,
    excess=lambda view: view.fact.count[1:],
)
