"""Finding: in expert parallelism (MoE), one rank gets more tokens than the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.comm.roles import EXPERT, find_groups
from gpu_profile.analysis.findings.evidence.arrivals import find_least_ms
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.places import find_longest_wait
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule, collect_nothing
from gpu_profile.analysis.findings.view import RankView
from gpu_profile.analysis.replay.edits.causes import UNEQUAL_COMPUTE
from gpu_profile.analysis.tables.comm_kernels import ALL_TO_ALL, KINDS

# With less than 5 % more tokens its GPU is slow. Chance stays
# below: a router without preference sends 8,192 tokens a step to 2 of 8 experts, and in 99 % of
# 200 simulated windows of 30 steps the busiest gets at most 1.011 times the mean (2 of 64 experts
# on 8 ranks in 10 steps: 1.019). A capacity factor of 1.25 drops tokens above 1.25 times the mean
# (Switch Transformers, arXiv 2101.03961, section 2.2), so a limit near 1.25 would name no such run.
LEAST_LOAD = 1.05
ADVICE = (
    "Balance the experts: an auxiliary loss or a bias of the router, a capacity factor, the "
    "busiest experts spread over the ranks or kept twice."
)
_ALL_TO_ALL = KINDS.index(ALL_TO_ALL)


@dataclass(frozen=True, eq=False)
class _Busiest:
    """The `views` with most compute, the `others`, and the load of the busiest.

    `load`: their tokens divided by the mean, 1.5
    for example; 0 if the sizes of the messages are unknown.
    """

    views: tuple[RankView, ...]
    others: tuple[RankView, ...]
    load: float


def judge_experts(views: Sequence[RankView]) -> Judgement:
    """One finding for each group of experts in which the others wait for the busiest rank."""
    groups = find_groups([view.split for view in views])
    findings: dict[tuple[int, ...], Finding] = {}
    for group in groups.values():
        if group.roles.get(ALL_TO_ALL) != EXPERT:
            continue
        members = tuple(v for v in views if np.any(v.split.arrivals.group == group.number))
        busiest = _find_busiest(members, group.number)
        if busiest:
            finding = _make_finding(busiest, group.number)
            findings.setdefault(finding.ranks, finding)
    return Judgement(tuple(findings.values()))


def _find_busiest(members: tuple[RankView, ...], number: int) -> _Busiest | None:
    """The busiest ranks (at most half of the group), or None; nearly equal ranks count together."""
    compute = np.array([view.ms("compute") for view in members])
    least = find_least_ms(members)
    busy = compute > compute.max() - least
    if 2 * busy.sum() > len(members):
        return None
    views, others = (
        tuple(view for view, chosen in zip(members, which, strict=True) if chosen)
        for which in (busy, ~busy)
    )
    load = _load(members, number, busy)
    if 0 < load < LEAST_LOAD or not _is_awaited(views, others, number, least, known=load > 0):
        return None
    return _Busiest(views, others, load)


def _is_awaited(
    views: Sequence[RankView], others: Sequence[RankView], number: int, least: float, *, known: bool
) -> bool:
    """Whether the others wait for the busiest ranks in the all-to-alls.

    If the bytes tell the load (`known`), the busiest may wait as long in turn: for a rank whose
    host is slow, because uneven experts and a slow host both cost time then.
    """
    others_wait, busiest_wait = (
        float(np.median([_measure_waiting(v, number) for v in side])) for side in (others, views)
    )
    return (others_wait if known else others_wait - busiest_wait) >= least / 2


def _measure_waiting(view: RankView, number: int) -> float:
    collectives, arrivals = view.states.collectives, view.split.arrivals
    chosen = (
        (arrivals.group == number)
        & (collectives.kind == _ALL_TO_ALL)
        & (collectives.start >= view.start)
    )
    start = collectives.start[chosen]
    waits = np.clip(arrivals.last[chosen], start, collectives.end[chosen]) - start
    return float(waits.sum()) / view.steps / 1e6


def _load(members: Sequence[RankView], number: int, busy: NDArray[np.bool_]) -> float:
    """Tokens of the busy ranks' experts, divided by the mean; 0.0 if the sizes are unknown.

    A rank's bytes are those of its own batch (equal on all ranks) and of its experts' tokens. On
    average both are half, so load = 2 * bytes / mean - 1: bytes 1.25 times the mean are a load of
    1.5.
    """
    total = np.array([_count_bytes(view, number) for view in members])
    return float(2 * total[busy].mean() / total.mean() - 1) if total.all() else 0.0


def _count_bytes(view: RankView, number: int) -> float:
    collectives, arrivals = view.states.collectives, view.split.arrivals
    chosen = (
        (arrivals.group == number)
        & (collectives.kind == _ALL_TO_ALL)
        & (collectives.start >= view.start)
    )
    messages = collectives.messages
    return float(messages.bytes[chosen[messages.kernel]].sum())


def _make_finding(busiest: _Busiest, number: int) -> Finding:
    views, others = busiest.views, busiest.others
    ranks, other_ranks = (format_ranks(view.rank for view in side) for side in (views, others))
    compute = [float(np.mean([v.ms("compute") for v in side])) for side in (views, others)]
    waits = [
        float(np.mean([_measure_waiting(v, number) for v in side])) for side in (views, others)
    ]
    evidence = [
        f"compute: {ranks} {compute[0]:.2f} ms a step, {other_ranks} {compute[1]:.2f} ms",
        f"waiting in all-to-alls: {ranks} {waits[0]:.2f} ms a step, "
        f"{other_ranks} {waits[1]:.2f} ms",
    ]
    if busiest.load:
        evidence.append(
            f"the experts of {ranks} get {busiest.load:.2f} times the mean of tokens, by the bytes "
            "of the all-to-alls"
        )
    numbers = tuple(sorted({view.rank for view in views}))
    payers = tuple(sorted({view.rank for view in others}))
    return Finding("experts", numbers, "compute", tuple(evidence), ADVICE, payers)


def _explains(findings: Sequence[Finding], other: Finding) -> bool:
    """Whether ranks are late because they compute for more tokens."""
    busiest = {rank for finding in findings for rank in finding.ranks}
    is_busy = busiest.issuperset(other.ranks) and other.cause == "compute"
    return other.kind == "straggler" and is_busy


RULE = FindingRule(
    kind="experts",
    title="Uneven experts",
    collect=collect_nothing,
    judge=judge_experts,
    rows=(
        FindingRow(
            causes=("compute",),
            when=(
                "some ranks of an all-to-all (at most half) compute more than the others, "
                "the others wait for them there, and, where NCCL says the sizes, "
                "they get 1.05 times the mean of tokens. Where it does not, they must wait less "
                "than the others"
            ),
        ),
    ),
    explains=_explains,
    time_ms=lambda view, _: view.ms("wait"),
    edit=lambda _finding: UNEQUAL_COMPUTE,
    place=find_longest_wait,
)
