"""Finding: one rank comes late to collectives again and again, and why."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, Activity
from gpu_profile.analysis.findings.evidence.arrivals import (
    ModuleTimes,
    StragglerView,
    Suspects,
    Waits,
    contention_ms,
    find_least_ms,
    keep_late,
    list_communicators,
    measure_lost_time,
    suspects_of,
)
from gpu_profile.analysis.findings.evidence.late_by_turns import (
    find_late_by_turns,
    measure_waited,
)
from gpu_profile.analysis.findings.evidence.late_hosts import (
    LEAST_MORE_KERNELS,
    count_kernels,
    ends_with_input,
    is_late_by_silence,
    launches_more,
    list_host_work,
)
from gpu_profile.analysis.findings.evidence.straggler_evidence import (
    list_evidence,
    list_module_evidence,
)
from gpu_profile.analysis.findings.facts.windows import is_in_steady_part, list_windows
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.idle_time import DATA_ADVICE, waits_for_data
from gpu_profile.analysis.findings.places import find_longest_wait
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import RankView
from gpu_profile.analysis.modules.marks import load_marks
from gpu_profile.analysis.modules.module_times import sum_by_module
from gpu_profile.analysis.replay.as_others import speed_up_gpu, speed_up_host
from gpu_profile.analysis.replay.changes import Change, combine
from gpu_profile.analysis.replay.edits.causes import UNEQUAL_COMPUTE
from gpu_profile.analysis.store.database import Database

NOTED_SHARE = 0.10
"""The part of the step in waits for which no single rank is the cause."""
# A late rank has the cause of the others if it has at least a quarter of what the worst one has.
LEAST_PART = 0.25
ADVICE = {
    "host": "Find what this rank's host does between launches (logging, checkpoints, data "
    "loading, a busy or wrongly bound CPU, another NUMA node); --preset=full names the function.",
    "compute": "Compare this rank's batch shapes and its GPU's clocks, power and temperature "
    "with the others' (nvidia-smi -q -d CLOCK,POWER,PERFORMANCE); balance the work.",
    "data": "Feed this rank as fast as the others: its data loader's storage, workers and CPU, the "
    f"size of its samples; {DATA_ADVICE}",
    "alone": "Let all ranks do a part of what this rank does while they wait, as an evaluation "
    "(a sampler that gives each rank its part, then one all-reduce), or do it less often.",
    "copy": "Copy less on this rank, from pinned memory, on a stream of its own, a step ahead.",
}
INCLUDED = {"host": ("host_bound", "idle"), "copy": ("exposed_copy",)}
"""What is the loss of a late rank, by the largest part of its delay."""


def collect_module_times(activity: Activity, _: Database) -> ModuleTimes:
    """The times of one rank's modules in its steady part; empty without marks."""
    if load_marks(activity.ranges) is None:
        return {}
    ops, first = activity.ops, list_windows(activity).start
    rows = np.flatnonzero((ops.kind == COMPUTE) & is_in_steady_part(activity, ops.start))
    rows = rows[~ops.union(COMMUNICATION).touches(ops.start[rows], ops.end[rows])]
    steps = max(1, int(np.sum(first[1:] >= first[0])))
    sums = sum_by_module(activity, rows, ops.length[rows].astype(np.int64))
    return {name: ns // steps for name, ns in sums.items()}


def judge_straggler(views: Sequence[StragglerView]) -> Judgement:
    """One finding for each communicator with a straggler; the same ranks are reported once."""
    groups = list_communicators(views)
    if not groups:
        return Judgement(unjudged=_why_not(views))
    findings: dict[tuple[int, ...], Finding] = {}
    notes, most_late = list[str](), dict[tuple[int, ...], float]()
    for waits in groups:
        suspects = suspects_of(waits)
        if suspects is None:
            scattered = _judge_scattered(waits)
            findings |= {finding.ranks: finding for finding in scattered.findings}
            notes += scattered.unjudged
            continue
        finding = _make_finding(_keep_guilty(waits, suspects))
        if finding is None:
            late = format_ranks(view.rank for view in suspects.late_ranks)
            notes.append(f"why {late} came last in collectives: nothing there stands out")
        elif suspects.late_ms > most_late.get(finding.ranks, 0.0):
            findings[finding.ranks], most_late[finding.ranks] = finding, suspects.late_ms
    return Judgement(tuple(findings.values()), tuple(dict.fromkeys(notes)))


def _why_not(views: Sequence[RankView]) -> tuple[str, ...]:
    if len(views) < 2:
        communicates = any(len(view.states.collectives) for view in views)
        return ("stragglers: the reports hold one rank of several",) if communicates else ()
    if any(view.split.arrivals.is_matched.any() for view in views):
        return ()  # only messages between two ranks: judge_pipeline() handles these
    if any(len(view.states.collectives) for view in views):
        return ("stragglers: no collectives could be matched over the ranks",)
    return ("stragglers: no collectives between the ranks",)


def _judge_scattered(waits: Waits) -> Judgement:
    """What is told where no single rank is the cause of much waiting."""
    waited = measure_waited(waits)
    finding = find_late_by_turns(waits, waited)
    if finding:
        return Judgement((finding,))
    step = float(np.mean([view.step_ms for view in waits.views]))
    if waited < NOTED_SHARE * step:
        return Judgement()
    ranks = format_ranks(view.rank for view in waits.views)
    text = f"{ranks} wait {waited:.2f} of {step:.2f} ms a step for each other in collectives"
    return Judgement(unjudged=(f"a straggler: {text}, but none of them comes last steadily",))


def _measure_excess(suspects: Suspects) -> dict[str, float]:
    """By cause, the ms in a step that the late ranks spend more than the typical other rank.

    A rank that waits for others lets its host run ahead, so it has fewer idle gaps whatever the
    reason of the wait. The cause "host" is therefore judged by the host's own time without
    blocking calls, where steps are known.
    """

    def more(*states: str) -> float:
        late = float(np.mean([view.ms(*states) for view in suspects.late_ranks]))
        return late - float(np.median([view.ms(*states) for view in suspects.others]))

    # Kernels on waiting ranks are slowed by the collective beside them; that part is added back.
    spared = np.median([contention_ms(view, suspects.late_ranks[0]) for view in suspects.others])
    exposed = max(more("idle_copy"), 0.0)
    staging = min(exposed, _measure_staging_excess(suspects))
    late_gaps = more("idle_launch", "idle_stall", "idle_sync") + exposed - staging
    return {
        "host": _measure_host_excess(suspects, late_gaps),
        "compute": more("compute") + float(spared),
        "copy": more("memory") + staging,
    }


def _measure_staging_excess(suspects: Suspects) -> float:
    """The idle time before copies (ms in a step) that the late ranks' longer copies explain.

    A pageable copy is staged by the host first. The GPUs of ranks that are on time still work
    meanwhile; the GPU of a rank whose host is late idles before a copy that is as short as theirs.
    """
    late, others = (
        float(np.median([view.ms("memory") for view in side]))
        for side in (suspects.late_ranks, suspects.others)
    )
    idle = float(np.mean([view.ms("idle_copy") for view in suspects.late_ranks]))
    return idle * max(1 - others / late, 0.0) if late else 0.0


def _measure_host_excess(suspects: Suspects, gaps: float) -> float:
    if not all(view.has_steps for view in (*suspects.late_ranks, *suspects.others)):
        return gaps

    late = float(np.mean([view.host_ms for view in suspects.late_ranks]))
    # A slower host delays the other ranks only as far as its GPU also idles more.
    return min(gaps, late - float(np.median([view.host_ms for view in suspects.others])))


def _keep_guilty(waits: Waits, suspects: Suspects) -> Suspects:
    """The suspects without late ranks that lack the cause of the others.

    A rank that saves checkpoints waits less than most, beside a rank whose GPU is slow.
    """
    excess = _measure_excess(suspects)
    most = max(excess, key=lambda key: excess[key])
    excesses = [
        _measure_excess(replace(suspects, late_ranks=(view,)))[most] for view in suspects.late_ranks
    ]
    guilty = [suspects.late_ranks[row] for row in list_guilty(excesses)]
    return (
        keep_late(waits, suspects, guilty) if len(guilty) < len(suspects.late_ranks) else suspects
    )


def list_guilty(excesses: Sequence[float]) -> list[int]:
    """The rows with a large part of the largest excess: all where no rank has any, such as of a
    recording that ends before its ranks do."""
    least = LEAST_PART * max(excesses)
    return [row for row, value in enumerate(excesses) if value >= least or least <= 0]


def _make_finding(suspects: Suspects) -> Finding | None:
    excess = _measure_excess(suspects)
    most = max(excess, key=lambda key: excess[key])
    if excess[most] < find_least_ms((*suspects.late_ranks, *suspects.others)):
        return None
    suspects = replace(suspects, late_ms=min(suspects.late_ms, excess[most]))
    silent = is_late_by_silence(suspects)
    cause = _name_cause(most, silent, suspects)
    late, others = (
        tuple(sorted({view.rank for view in side}))
        for side in (suspects.late_ranks, suspects.others)
    )
    evidence = list_evidence(suspects, excess)
    if most == "host":
        evidence += tuple(list_host_work(suspects, silent))
    if cause == "compute":
        evidence += list_module_evidence(suspects)
    advice = _choose_advice(suspects, cause, silent)
    included = INCLUDED.get(most, ())
    return Finding("straggler", late, cause, evidence, advice, others, included)


def _name_cause(most: str, late_by_silence: bool, suspects: Suspects) -> str:
    """The cause of a delay of which `most` ("host", for example) has the largest part."""
    late, others = count_kernels(suspects)
    if most == "compute" and suspects.period and late >= LEAST_MORE_KERNELS * others:
        return "alone"
    if most != "host":
        return most
    if late_by_silence and all(map(waits_for_data, suspects.late_ranks)):
        return "data"
    return "compute" if launches_more(suspects) else "host"


def _choose_advice(suspects: Suspects, cause: str, late_by_silence: bool) -> str:
    loads = cause == "host" and late_by_silence and any(map(ends_with_input, suspects.late_ranks))
    return f"{ADVICE[cause]} If it loads data there: {DATA_ADVICE}" if loads else ADVICE[cause]


def _edit(finding: Finding) -> Change:
    """Each late rank does the late part of its work as the other ranks do."""
    if finding.cause == "spread":
        return UNEQUAL_COMPUTE
    if finding.cause == "alone":
        return _share_work(finding.ranks)
    of_gpu = finding.cause in ("compute", "copy")
    speed_up, part = (speed_up_gpu, "compute") if of_gpu else (speed_up_host, "host")
    names = ", ".join(f"rank {rank}" for rank in finding.ranks)
    return Change(f"{names}'s {part}", combine([speed_up(rank) for rank in finding.ranks]))


def _share_work(ranks: Sequence[int]) -> Change:
    """All ranks do equal parts of what the late ones do alone; at the most it is not done at all.

    Of an evaluation in each fifth step on one of two ranks that cost 11.6 ms a step, a half stayed
    where each rank did its part (H200).
    """
    bounds = UNEQUAL_COMPUTE.apply, combine([speed_up_gpu(rank) for rank in ranks])
    return replace(UNEQUAL_COMPUTE, bounds=bounds)


RULE = FindingRule(
    kind="straggler",
    title="Straggler",
    collect=collect_module_times,
    judge=judge_straggler,
    rows=(
        FindingRow(
            causes=("host", "data", "compute", "copy"),
            when=(
                "the same ranks (at most half) come last in collectives more often than by chance "
                "(the table below). `data`: their host was loading "
                "data (the evidence table below), for longer than the others'. `compute`: also "
                "where their hosts launch more kernels, and that makes them late"
            ),
        ),
        FindingRow(
            causes=("alone",),
            when=(
                "a rank is late in every n-th step alone, because it launches more kernels there, "
                "as one that evaluates. The gain is an estimate: all ranks do an equal part of "
                "that; at the most it is not done at all"
            ),
        ),
        FindingRow(
            causes=("spread",),
            when=(
                "no rank comes last steadily, but the ranks wait for each other, and half of that "
                "or more is that they compute unequal times, one more in some steps and another "
                "one in others. The gain is that of the mean of all ranks in each step"
            ),
        ),
    ),
    time_ms=lambda view, _: measure_lost_time(view),
    edit=_edit,
    place=find_longest_wait,
)
