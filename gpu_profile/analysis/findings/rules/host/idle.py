"""Finding idle: the host stalled, captured graphs, or work that was issued waited."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.idle.gaps import (
    CAUSES,
    LAUNCH,
    QUEUED,
    STALL,
    SYNC,
    find_gaps,
)
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.captures import find_captures
from gpu_profile.analysis.findings.facts.windows import list_windows
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.idle_time import (
    DATA_ADVICE,
    advise_stacks,
    format_idle_line,
    judge_state,
    list_places,
    waits_for_data,
)
from gpu_profile.analysis.findings.places import find_longest_gap
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import LEAST_FREQUENCY, RankView, View
from gpu_profile.analysis.replay.changes import Change
from gpu_profile.analysis.replay.edits.causes import LONE_PAUSES, PAUSES
from gpu_profile.analysis.replay.edits.graph_captures import CAPTURES
from gpu_profile.analysis.store.database import Database

STALLED = f"idle_{CAUSES[STALL]}"
SHORTER = tuple(f"idle_{CAUSES[cause]}" for cause in (LAUNCH, SYNC))
NOTED_SHARE = 0.10
"""Of the steady steps, in delays that came once."""
HALF = 0.5
STALL_ADVICE = {
    "data": f"P{DATA_ADVICE[1:]}",
    "host": "Look at what the host does there; move it off the launching thread or out of the "
    "step.",
    "garbage": "Collect garbage outside of the steps: gc.freeze() after the set-up, or "
    "gc.disable() and a gc.collect() every few hundred steps; keep fewer objects.",
    "capture": "Keep each graph and replay it: round shapes up to a few sizes, and capture one for "
    "each before the loop; cudaGraphExecUpdate changes the parameters of one that is there.",
    "queued": "The work was issued in time and waited for an event or another stream: check "
    "stream dependencies.",
}


@dataclass(frozen=True, eq=False)
class Captures:
    """CUDA graphs that are instantiated: their `count` by window, and `idle`, the ns in which the
    GPU idles while the host captures them.
    """

    count: IntArray
    idle: IntArray


def collect_captures(activity: Activity, _: Database) -> Captures:
    """The captures of one rank."""
    captures, gaps, windows = find_captures(activity), find_gaps(activity), list_windows(activity)
    idle = captures.within(gaps.start, gaps.end)
    return Captures(windows.count(captures.start), windows.sum(gaps.start, idle))


def _queued_ms(view: RankView) -> float:
    return view.ms("idle_queued")


def _captured_ms(view: View[Captures]) -> float:
    """The mean of all steady steps; 0 where most have no capture: a program may update a graph."""
    if not view.has_steps or view.frequency(view.fact.count) < LEAST_FREQUENCY:
        return 0.0
    return float(np.mean(view.steady(view.fact.idle))) / 1e6


def judge_idle(views: Sequence[View[Captures]]) -> Judgement:
    """Find stalls of the host, by what it was doing, and operations that waited in the queue."""
    captured = [view for view in views if view.is_costly(_captured_ms(view))]
    silent = [
        view
        for view in views
        if view.is_costly(_stall_ms(view))
        and not (view in captured and _captured_ms(view) >= HALF * _stall_ms(view))
    ]
    data = [view for view in silent if waits_for_data(view)]
    other = [view for view in silent if view not in data]
    # An operation without a recorded call may or may not have been queued.
    explained = [
        view for view in views if 100 * view.common.health.orphans < view.common.health.operations
    ]
    queued = [view for view in explained if view.is_costly(_queued_ms(view))]
    parts = (
        judge_state("idle", "data", data, _stall_evidence, STALL_ADVICE["data"]),
        judge_state("idle", "host", other, _stall_evidence, _host_advice(other)),
        judge_state("idle", "capture", captured, _captured_evidence, STALL_ADVICE["capture"]),
        judge_state("idle", "queued", queued, _queued_evidence, STALL_ADVICE["queued"]),
    )
    findings = tuple(finding for part in parts for finding in part.findings)
    return Judgement(findings, _note_single(views))


def _note_single(views: Sequence[RankView]) -> tuple[str, ...]:
    """A note about delays that came once and took 10 % of the steady steps; they are no cost of
    each step.
    """
    views = [view for view in views if not _is_slow_by_pauses(view)]
    # > 0: a rank without steady steps has 0 ms of both, and would be noted for a delay of 0 ms
    lost = [view for view in views if _single_ms(view) >= NOTED_SHARE * _steady_ms(view) > 0]
    if not lost:
        return ()
    worst = max(lost, key=_single_ms)
    late = worst.is_single(STALLED)
    ranks = format_ranks(view.rank for view in lost)
    return (
        f"whether a delay of the host comes again: in {int(late.sum())} of {len(late)} steps "
        f"{ranks} idled, up to {_single_ms(worst):.0f} ms in all, while the host issued nothing. "
        "Figures of one step leave it out",
    )


def _single_ms(view: RankView) -> float:
    values = view.steady(view.split.spent[STALLED])
    return float(values[view.is_single(STALLED)].sum()) / 1e6


def _steady_ms(view: RankView) -> float:
    states = view.states
    return float(view.steady(states.end - states.start).sum()) / 1e6


def _host_advice(views: Sequence[RankView]) -> str:
    works = [view.common.idle.host_work.get(STALL) for view in views]
    if any(work and work.is_collecting for work in works):
        return STALL_ADVICE["garbage"]
    advice = STALL_ADVICE["host"] + advise_stacks(views)
    loads = any(work and work.before_input for work in works)
    return f"{advice} If it loads data there: {DATA_ADVICE}" if loads else advice


def _stall_ms(view: RankView) -> float:
    if not _is_slow_by_pauses(view):
        return view.whole_ms(STALLED)
    late = [view.steady(view.split.spent[state]) for state in (STALLED, *SHORTER)]
    return float(np.mean(np.sum(late, axis=0))) / 1e6


def _is_slow_by_pauses(view: RankView) -> bool:
    """Whether the host needs longer for most steps than its GPU, but for launches half as long.

    A loader that is 5 % slower than the GPU uses up the host's lead in some steps. Only then the
    GPU idles: for as long as the pause, once in twenty steps, and for a little before.
    """
    if not view.has_steps or not np.any(view.steady(view.split.spent[STALLED])):
        return False
    times, work = view.common.host_times, view.steady(view.states.times["busy"])
    active, issuing = (view.steady(np.r_[0, part]) for part in (times.active, times.issuing))
    slower, fast = np.median(active - work), np.median(work - 2 * issuing)
    return bool(slower > 0 and fast > 0)


def _stalled_step_ms(view: RankView) -> float:
    if not _is_slow_by_pauses(view):
        return view.whole_step_ms(STALLED)
    return _steady_ms(view) / len(view.steady(view.states.end))


def _stall_evidence(views: Sequence[RankView]) -> tuple[str, ...]:
    slow = [view for view in views if _is_slow_by_pauses(view)]
    words = "idle because of long pauses in which the host launched nothing"
    line = format_idle_line(views, _stall_ms, words, _stalled_step_ms)
    return (line, *map(_describe_pauses, slow[:1]), *list_places(views, STALL))


def _describe_pauses(view: RankView) -> str:
    times, busy = view.common.host_times, view.steady(view.states.times["busy"])
    active, silent = (view.steady(np.r_[0, part]) for part in (times.active, times.silent))
    host, pause, work = (float(np.median(part)) / 1e6 for part in (active, silent, busy))
    return (
        f"rank {view.rank}: most steps take the host {host:.2f} ms, of which it issues nothing "
        f"for {pause:.2f} ms, and the GPU {work:.2f} ms"
    )


def _captured_evidence(views: Sequence[View[Captures]]) -> tuple[str, ...]:
    worst = max(views, key=_captured_ms)
    count = float(np.mean(worst.steady(worst.fact.count)))
    words = "idle while the host captured CUDA graphs"
    return (
        format_idle_line(views, _captured_ms, words),
        f"rank {worst.rank}: {count:.2f} captures a step, each of which ends with an instance",
    )


def _queued_evidence(views: Sequence[RankView]) -> tuple[str, ...]:
    words = "idle with work issued that waited for something else"
    return (format_idle_line(views, _queued_ms, words), *list_places(views, QUEUED))


def _edit(finding: Finding) -> Change | None:
    """What else the GPU waits for where its operations were queued, nobody knows."""
    changes = {"queued": None, "data": LONE_PAUSES, "capture": CAPTURES}
    return changes.get(finding.cause, PAUSES)


def _time_ms(view: View[Captures], cause: str) -> float:
    times = {"queued": _queued_ms, "capture": _captured_ms}
    return times.get(cause, _stall_ms)(view)


RULE = FindingRule(
    kind="idle",
    title="Idle GPU",
    collect=collect_captures,
    judge=judge_idle,
    rows=(
        FindingRow(
            causes=("data", "host"),
            when=(
                "the GPU idles by cause `stall`. Where the host needs longer for most steps than "
                "the GPU, but half as long for its launches, causes `launch` and `sync` count "
                "too. `data`: the host was loading data (the evidence table below). `host`: it did "
                "something else"
            ),
        ),
        FindingRow(
            causes=("capture",),
            when=(
                "the GPU idles from the last operation launched before a CUDA graph is "
                "instantiated to the next one, in every other step or more. Where that is half of "
                "the idle time of cause `stall`, it stands in for `data` and `host`"
            ),
        ),
        FindingRow(
            causes=("queued",),
            when="the GPU idles by cause `queued`",
        ),
    ),
    unclear_without_steps=lambda finding: finding.cause != "queued",
    needs_all_kernels=True,
    time_ms=_time_ms,
    edit=_edit,
    place=lambda views, finding: find_longest_gap(QUEUED if finding.cause == "queued" else STALL)(
        views, finding
    ),
)
