"""Finding: one rank comes late to collectives again and again, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gpu_profile.analysis.activity.idle import LAUNCH, STALL
from gpu_profile.analysis.findings.arrivals import (
    LEAST_SHARE,
    Suspects,
    Waits,
    contention_ms,
    keep_late,
    least_ms,
    list_communicators,
    suspects_of,
)
from gpu_profile.analysis.findings.finding import (
    Finding,
    FindingRow,
    FindingRule,
    Judgement,
    View,
    format_ranks,
)
from gpu_profile.analysis.findings.idle_time import (
    DATA_ADVICE,
    IDLE_SHARE,
    list_places,
    waits_for_data,
)

# A late rank has the cause of the others if it has at least a quarter of what the worst one has.
LEAST_PART = 0.25
# Others wait for a part of the late rank's idle time, as their hosts take time, too: for 4.0 of
# 8.8 ms, 7.0 of 14.7 ms and 3.3 of 4.6 ms in three recordings.
SAME_COST = 2.5
ADVICE = {
    "host": "Find what this rank's host does between launches (logging, checkpoints, data "
    "loading, a busy or wrongly bound CPU, another NUMA node); --preset=full names the function.",
    "compute": "Compare this rank's batch shapes and its GPU's clocks, power and temperature "
    "with the others' (nvidia-smi -q -d CLOCK,POWER,PERFORMANCE); balance the work.",
    "data": "Feed this rank as fast as the others: its data loader's storage, workers and CPU, the "
    f"size of its samples; {DATA_ADVICE}",
    "copy": "Copy less on this rank, from pinned memory, on a stream of its own, a step ahead.",
}


def judge_straggler(views: Sequence[View]) -> Judgement:
    """One finding for each communicator with a straggler; the same ranks are reported once."""
    groups = list_communicators(views)
    if not groups:
        return Judgement(unjudged=_why_not(views))
    findings: dict[tuple[int, ...], Finding] = {}
    notes = []
    for waits in groups:
        suspects = suspects_of(waits)
        if suspects is None:
            notes += _describe_scattered(waits)
            continue
        finding = _make_finding(_keep_guilty(waits, suspects))
        if finding is None:
            late = format_ranks(view.rank for view in suspects.late)
            notes.append(f"why {late} came last in collectives: nothing there stands out")
        elif finding.ms_per_step > _known_ms(findings.get(finding.ranks)):
            findings[finding.ranks] = finding
    return Judgement(tuple(findings.values()), tuple(dict.fromkeys(notes)))


def _known_ms(finding: Finding | None) -> float:
    return finding.ms_per_step if finding else -1.0


def _why_not(views: Sequence[View]) -> tuple[str, ...]:
    if len(views) < 2:
        alone = any(len(view.facts.states.collectives) for view in views)
        return ("stragglers: the reports hold one rank of several",) if alone else ()
    if any(view.split.arrivals.matched.any() for view in views):
        return ()  # only messages between two ranks: judge_pipeline() handles these
    if any(len(view.facts.states.collectives) for view in views):
        return ("stragglers: no collectives could be matched over the ranks",)
    return ("stragglers: no collectives between the ranks",)


def _describe_scattered(waits: Waits) -> list[str]:
    """A note about much waiting for which no single rank is the cause; not a finding."""
    # The waits of this communicator alone: waits for a pipeline's messages do not count.
    own = (waits.wait * waits.weight).sum(axis=1)
    waited = min(
        float(np.mean([view.ms("wait") for view in waits.views])),
        float(np.mean([ns / view.steps for ns, view in zip(own, waits.views, strict=True)])) / 1e6,
    )
    step = float(np.mean([view.step_ms for view in waits.views]))
    if waited < 2 * LEAST_SHARE * step:
        return []
    ranks = format_ranks(view.rank for view in waits.views)
    text = f"{ranks} wait {waited:.2f} of {step:.2f} ms a step for each other in collectives"
    return [f"a straggler: {text}, but none of them comes last steadily"]


def _measure_excess(suspects: Suspects) -> dict[str, float]:
    """By cause, the ms in a step that the late ranks spend more than the typical other rank.

    A rank that waits for others lets its host run ahead, so it has fewer idle gaps whatever the
    reason of the wait. The cause "host" is therefore judged by the host's own time without
    blocking calls, where steps are known.
    """

    def more(*states: str) -> float:
        late = float(np.mean([view.ms(*states) for view in suspects.late]))
        return late - float(np.median([view.ms(*states) for view in suspects.others]))

    # Kernels on waiting ranks are slowed by the collective beside them; that part is added back.
    spared = np.median([contention_ms(view, suspects.late[0]) for view in suspects.others])
    return {
        "host": _host_excess(suspects, more("idle_launch", "idle_stall", "idle_sync")),
        "compute": more("compute") + float(spared),
        "copy": max(more("memory"), more("memory", "idle_copy")),
    }


def _host_excess(suspects: Suspects, gaps: float) -> float:
    if not all(view.has_steps for view in (*suspects.late, *suspects.others)):
        return gaps

    late = float(np.mean([view.host_ms for view in suspects.late]))
    # A slower host delays the other ranks only as far as its GPU also idles more.
    return min(gaps, late - float(np.median([view.host_ms for view in suspects.others])))


def _keep_guilty(waits: Waits, suspects: Suspects) -> Suspects:
    """The suspects without late ranks that lack the cause of the others.

    A rank that saves checkpoints waits less than most, beside a rank whose GPU is slow.
    """
    excess = _measure_excess(suspects)
    most = max(excess, key=lambda key: excess[key])
    own = [_measure_excess(replace(suspects, late=(view,)))[most] for view in suspects.late]
    kept = [
        view
        for view, value in zip(suspects.late, own, strict=True)
        if value >= LEAST_PART * max(own)
    ]
    return keep_late(waits, suspects, kept) if len(kept) < len(suspects.late) else suspects


def _make_finding(suspects: Suspects) -> Finding | None:
    excess = _measure_excess(suspects)
    most = max(excess, key=lambda key: excess[key])
    gain = min(suspects.gain_ms, excess[most])
    by_loader = most == "host" and all(waits_for_data(view) for view in suspects.late)
    cause = "data" if by_loader else most
    if gain < least_ms((*suspects.late, *suspects.others)):
        return None
    ranks = tuple(sorted(view.rank for view in suspects.late))
    evidence = _list_evidence(suspects, excess)
    if most == "host":
        evidence += tuple(line for view in suspects.late for line in _list_host_work(view, gain))
        evidence += _list_slow_hosts(suspects.others)
    if cause == "compute":
        evidence += _module_evidence(suspects)
    return Finding("straggler", ranks, cause, gain, evidence, _advice(suspects, cause))


def _list_host_work(view: View, gain: float) -> Iterator[str]:
    """What the host of a late rank did while its GPU idled: slow launches, or none at all."""
    slow = view.ms("idle_launch")
    if slow >= LEAST_PART * gain:
        yield f"rank {view.rank}: idle {slow:.2f} ms a step while its host issued work too slowly"
        yield from list_places([view], LAUNCH)
    silent = view.whole_ms("idle_stall")
    if silent < LEAST_PART * gain:
        return
    work = view.facts.host_work.get(STALL)
    loads = waits_for_data(view) or bool(work and work.before_input)
    like = ", as a rank that waits for its data loader" if loads else ""
    yield f"rank {view.rank}: idle {silent:.2f} ms a step while its host issued nothing{like}"
    yield from list_places([view], STALL)


def _list_slow_hosts(others: Sequence[View]) -> tuple[str, ...]:
    """Evidence that the other ranks' hosts would be late, too, if no rank came late."""
    host = float(np.median([view.host_ms for view in others]))
    work = float(np.median([view.mean(view.facts.states.own["busy"]) / 1e6 for view in others]))
    work -= float(np.median([view.ms("wait") for view in others]))
    if host - work < IDLE_SHARE * float(np.median([view.step_ms for view in others])):
        return ()
    ranks = format_ranks(view.rank for view in others)
    return (
        f"{ranks}: the host, too, takes {host:.2f} ms for the {work:.2f} ms of GPU work a step",
    )


def _explains(own: Sequence[Finding], other: Finding) -> bool:
    """Whether the idle time of a late rank is the delay of its host that makes it late.

    The late rank's evidence says where its host's time goes. Costs that differ by more than
    SAME_COST are of two causes: of a host that is slow on all ranks, for example.
    """
    of_host = other.kind == "host_bound" or (other.kind == "idle" and other.cause != "queued")
    return of_host and any(
        finding.cause in ("host", "data")
        and set(other.ranks) <= set(finding.ranks)
        and 1 / SAME_COST <= other.ms_per_step / finding.ms_per_step <= SAME_COST
        for finding in own
    )


def _advice(suspects: Suspects, cause: str) -> str:
    works = [view.facts.host_work.get(STALL) for view in suspects.late]
    loads = cause == "host" and any(work and work.before_input for work in works)
    return f"{ADVICE[cause]} If it loads data there: {DATA_ADVICE}" if loads else ADVICE[cause]


def _list_evidence(suspects: Suspects, excess: dict[str, float]) -> tuple[str, ...]:
    late = format_ranks(view.rank for view in suspects.late)
    others = format_ranks(view.rank for view in suspects.others)
    wait = float(np.mean([view.ms("wait") for view in suspects.others]))
    move = float(np.mean([view.ms("transfer") for view in suspects.others]))
    lag, at = suspects.worst
    more = ", ".join(f"{name} {value:+.2f} ms" for name, value in excess.items())
    return (
        f"{late} arrived last in {suspects.last} of {suspects.total} collectives",
        f"{others}: exposed collectives are {wait:.2f} ms a step of wait and {move:.2f} ms of "
        "transfer, so not the network",
        f"against the typical other rank, a step of {late} has {more}",
        f"worst at {at / 1e6:.1f} ms: {lag:.2f} ms after all others",
        *_kernel_evidence(suspects),
    )


def _kernel_evidence(suspects: Suspects) -> tuple[str, ...]:
    """Evidence whether the late ranks run the same kernels slower, or more of them.

    Only kernels without concurrent communication count, because it slows kernels of waiting ranks.
    """
    late, other = suspects.late[0], suspects.others[0]
    pairs = [
        (time, other.facts.kernels[name])
        for name, time in late.facts.kernels.items()
        if name in other.facts.kernels
    ]
    both = [(a, b) for a, b in pairs if a.alone_count and b.alone_count]
    base = sum(b.alone_total / b.alone_count * a.alone_count for a, b in both)
    if not base:
        return ()
    ratio = sum(a.alone_total for a, _ in both) / base
    counts = [view.mean(view.facts.kernel_count) for view in (late, other)]
    return (
        f"rank {late.rank} against rank {other.rank}: the same kernels take {ratio:.2f} times "
        f"as long, {counts[0]:.0f} against {counts[1]:.0f} kernels a step",
    )


def _module_evidence(suspects: Suspects) -> tuple[str, ...]:
    """The module in which the late rank computes most longer than another one.

    Both times are of kernels without concurrent communication, as _kernel_evidence() has it.
    """
    late, other = (
        {name: ns / 1e6 for name, ns in view.facts.module_times.items()}
        for view in (suspects.late[0], suspects.others[0])
    )
    more = {name: ms - other[name] for name, ms in late.items() if name in other}
    name = max(more, key=lambda key: (more[key], key), default="")
    if not name or more[name] <= 0:
        return ()
    of = f"rank {suspects.late[0].rank} against rank {suspects.others[0].rank}"
    return (f"{of}: most of the difference is in {name}, {more[name]:+.2f} ms a step",)


RULE = FindingRule(
    kind="straggler",
    title="Straggler",
    judge=judge_straggler,
    rows=(
        FindingRow(
            causes=("host", "data", "compute", "copy"),
            when=(
                "the same ranks (at most half) come last in collectives more often than by chance "
                "(the table below), and it costs 5 % of the step. `data`: their host was loading "
                "data (the evidence table below)"
            ),
        ),
    ),
    explains=_explains,
)
