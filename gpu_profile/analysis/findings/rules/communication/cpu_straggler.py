"""Finding cpu_straggler: one rank comes late to collectives on the CPU (gloo, MPI).

The GPU shows no such collective. But each rank copies its data to the host, waits there, and copies
the result back, and all ranks go on at one time. A rank that others wait for has its own pause
before its copy to the host, so that all ranks look idle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import (
    COPY,
    COPY_TO_DEVICE,
    COPY_TO_HOST,
    NO_CALL,
    SYNC_NAME,
    Activity,
)
from gpu_profile.analysis.activity.idle.gaps import STALL
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.findings.facts.windows import list_windows
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.idle_time import list_places, waits_for_data
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.changes import Change
from gpu_profile.analysis.replay.edits.causes import LONE_PAUSES
from gpu_profile.analysis.store.database import Database

CONSTANCY = 0.6
"""As of straggler: of n ranks each is last in 1/n of the cases by chance."""
LEAST_MEETINGS = 5  # fewer come together by chance
TOGETHER_NS, TOGETHER_SHARE = 500_000, 0.05
"""How far apart the ranks go on: for a process to wake up, and of a long wait."""
NEAR_CALLS = 4
"""From the wait for a copy to the host to the copy back, with events between."""
MOST = 4096  # of 16 bytes each, which go from the process of the report to that of all
HALF = 0.5
INCLUDED = ("idle", "host_bound")
ADVICE = {
    "host": "Find what this rank's host does before the collective (logging, checkpoints, a busy "
    "CPU); --annotate=steps names the function. Collectives by NCCL stay on the GPU.",
    "data": "Feed this rank as fast as the others: its data loader's storage, workers and CPU. "
    "Collectives by NCCL stay on the GPU.",
    "compute": "Compare this rank's batch shapes and its GPU's clocks with the others'; balance "
    "the work. Collectives by NCCL stay on the GPU.",
}


@dataclass(frozen=True, eq=False)
class Exchanges:
    """Waits of one rank's host between a copy to the host and one back, in ns from the first
    window's start: from `arrivals` to `departures`.
    """

    arrivals: IntArray
    departures: IntArray


@dataclass(frozen=True, eq=False)
class Meetings:
    """Exchanges that end together: `start[rank, meeting]` is when each rank arrived, `end` when
    all went on (ns, the run's clock).
    """

    start: IntArray
    end: IntArray

    @property
    def wait(self) -> IntArray:
        """How long each rank waited for the last one."""
        return np.asarray(self.start.max(axis=0) - self.start, np.int64)


def collect_exchanges(activity: Activity, _: Database) -> Exchanges:
    """The exchanges of one rank in its steady part, at most MOST."""
    calls, (begin, end) = activity.calls, _get_steady_part(activity)
    waits = calls.match_names(activity.names, SYNC_NAME) | _mark_copies(activity, COPY_TO_HOST)
    sends = _mark_copies(activity, COPY_TO_DEVICE)
    arrived, left = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for thread in list_distinct(calls.thread[sends]):
        rows = np.flatnonzero(calls.thread == thread)
        at = np.flatnonzero(sends[rows])
        last = np.maximum.accumulate(np.where(waits[rows], np.arange(len(rows)), -1))
        before = last[np.maximum(at - 1, 0)]
        near = (before >= 0) & (at - before <= NEAR_CALLS) & (at > 0)
        before = np.unique(before[near])
        arrived.append(calls.end[rows[before]])
        left.append(calls.start[rows[before + 1]])
    starts, ends = np.concatenate(arrived), np.concatenate(left)
    chosen = np.flatnonzero((starts >= begin) & (ends < end))
    chosen = chosen[np.argsort(ends[chosen], kind="stable")][:MOST]
    return Exchanges(starts[chosen] - begin, ends[chosen] - begin)


def _get_steady_part(activity: Activity) -> tuple[int, int]:
    windows = list_windows(activity)
    return int(windows.start[0]), int(windows.end[0])


def _mark_copies(activity: Activity, kind: int) -> Flags:
    """A mask of the calls that copy in this direction."""
    ops = activity.ops
    marks = np.zeros(len(activity.calls.start), bool)
    marks[ops.call[(ops.kind == COPY) & (ops.copy_kind == kind) & (ops.call != NO_CALL)]] = True
    return marks


def judge_exchanges(views: Sequence[View[Exchanges]]) -> Judgement:
    """Find the rank that the others wait for, where no collective runs on the GPUs."""
    views = [view for view in views if view.has_steps]
    if len(views) < 2 or any(view.split.arrivals.is_matched.any() for view in views):
        return Judgement()
    meetings = _find_meetings(views)
    if meetings is None:
        return Judgement()
    late = _find_late(views, meetings)
    if late is None:
        return Judgement()
    others = [view for view in views if view is not late]
    gain = _measure_loss(views, meetings, late)
    stalls = float(np.mean([view.whole_ms("idle_stall") for view in others]))
    if not late.is_costly(gain) or gain < HALF * stalls:
        return Judgement()
    cause = _name_cause(late, others, gain)
    evidence = tuple(_list_evidence(views, meetings, late, gain))
    payers, advice = tuple(sorted(view.rank for view in others)), ADVICE[cause]
    return Judgement(
        (Finding("cpu_straggler", (late.rank,), cause, evidence, advice, payers, INCLUDED),)
    )


def _find_meetings(views: Sequence[View[Exchanges]]) -> Meetings | None:
    """The exchanges of the rank that waits most that end together with one on every other rank."""
    waited = [int((view.fact.departures - view.fact.arrivals).sum()) for view in views]
    base = views[int(np.argmax(waited))]
    arrived, left = _list_times(base)
    together = np.ones(len(left), bool)
    starts = []
    for view in views:
        theirs, ends = _list_times(view)
        if not len(ends):
            return None
        place = np.clip(np.searchsorted(ends, left), 1, max(len(ends) - 1, 1)) - 1
        after = np.minimum(place + 1, len(ends) - 1)
        place = np.where(np.abs(ends[after] - left) < np.abs(ends[place] - left), after, place)
        apart = np.abs(ends[place] - left)
        together &= apart <= np.maximum(TOGETHER_NS, TOGETHER_SHARE * (left - arrived))
        starts.append(theirs[place])
    if np.count_nonzero(together) < LEAST_MEETINGS:
        return None
    return Meetings(np.stack(starts)[:, together], left[together])


def _list_times(view: View[Exchanges]) -> tuple[IntArray, IntArray]:
    """(arrived, left) in the rank's steady steps, on the run's clock."""
    begin = int(view.states.start[0])
    arrived, left = view.fact.arrivals + begin, view.fact.departures + begin
    inside = (left >= view.start) & (left < view.end)
    return arrived[inside], left[inside]


def _find_late(views: Sequence[View[Exchanges]], meetings: Meetings) -> View[Exchanges] | None:
    """The rank that comes last steadily, by time waited and by meetings; None without one."""
    last = np.argmax(meetings.start, axis=0)
    waited = meetings.wait.sum(axis=0).astype(np.float64)
    long = waited >= HALF * float(np.median(waited))
    ranks, total = len(views), max(float(waited.sum()), 1.0)
    counts = np.bincount(last[long], minlength=ranks) / max(int(long.sum()), 1)
    times = np.bincount(last, waited, ranks) / total
    share, chance = np.minimum(counts, times), 1 / len(views)
    row = int(np.argmax(share))
    constant = (share[row] - chance) / (1 - chance) >= CONSTANCY
    return views[row] if constant else None


def _measure_loss(
    views: Sequence[View[Exchanges]], meetings: Meetings, late: View[Exchanges]
) -> float:
    """What the others wait for the late rank (ms a step, the mean of their hosts).

    Threads that wait for several buckets at a time lose that time once.
    """
    is_last = np.argmax(meetings.start, axis=0) == views.index(late)
    came = meetings.start.max(axis=0)[is_last]
    return float(
        np.mean(
            [
                Intervals.union(arrived[is_last], came).total / 1e6 / view.steps
                for arrived, view in zip(meetings.start, views, strict=True)
                if view is not late
            ]
        )
    )


def _name_cause(late: View[Exchanges], others: Sequence[View[Exchanges]], gain: float) -> str:
    more = late.ms("compute") - float(np.median([view.ms("compute") for view in others]))
    if more >= HALF * gain:
        return "compute"
    return "data" if waits_for_data(late) else "host"


def _list_evidence(
    views: Sequence[View[Exchanges]], meetings: Meetings, late: View[Exchanges], gain: float
) -> Iterator[str]:
    last = np.argmax(meetings.start, axis=0) == views.index(late)
    others = format_ranks(view.rank for view in views if view is not late)
    yield (
        f"rank {late.rank} arrived last in {np.count_nonzero(last)} of {len(last)} exchanges "
        "between the hosts: a copy from the GPU, a wait, a copy back, and all ranks go on together"
    )
    step = late.step_ms
    yield f"{others}: the host waits {gain:.2f} of {step:.2f} ms a step for rank {late.rank}"
    compute = [f"{view.ms('compute'):.2f}" for view in views]
    yield f"compute of each rank in a step: {', '.join(compute)} ms"
    yield from list_places([late], STALL)


def _explains(_stragglers: Sequence[Finding], other: Finding) -> bool:
    """Whether another finding is of the same pauses: those of the late rank, and the waits for it.

    judge_exchanges() has found that half of the stalls are such waits.
    """
    return other.kind == "idle" and other.cause in ("data", "host")


def _edit(finding: Finding) -> Change | None:
    """The waits of the others are pauses, too, and end with the late rank's."""
    return None if finding.cause == "compute" else LONE_PAUSES


RULE = FindingRule(
    kind="cpu_straggler",
    title="Straggler of collectives on the CPU",
    collect=collect_exchanges,
    judge=judge_exchanges,
    explains=_explains,
    time_ms=lambda view, _: view.whole_ms("idle_stall"),
    edit=_edit,
    rows=(
        FindingRow(
            causes=("host", "data", "compute"),
            when=(
                "no collective runs on the GPUs, the hosts wait between a copy from the GPU and "
                "one back (gloo, MPI) and go on together, the same rank comes last in as many of "
                "these exchanges as a `straggler`, and the others wait for it half of what they "
                "idle by cause `stall`"
            ),
        ),
    ),
)
