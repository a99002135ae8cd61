"""Expert parallelism in which one rank gets more tokens than the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.comm.roles import EXPERT, find_groups
from gpu_profile.analysis.findings.arrivals import least_ms
from gpu_profile.analysis.findings.finding import Finding, Judgement, View, format_ranks
from gpu_profile.analysis.tables.comm_kernels import ALL_TO_ALL, KINDS

# Routers send 1.1 times the mean to some rank in any step.
LEAST_LOAD = 1.1
ADVICE = (
    "Balance the experts: an auxiliary loss or a bias of the router, a capacity factor, the "
    "busiest experts spread over the ranks or kept twice."
)
_ALL_TO_ALL = KINDS.index(ALL_TO_ALL)


@dataclass(frozen=True, eq=False)
class _Busiest:
    """The `views` that compute most among all, the `others`, by how many ms a step they are above
    the mean, and their tokens over the mean's (0 where the messages' sizes are not known)."""

    views: tuple[View, ...]
    others: tuple[View, ...]
    excess_ms: float
    load: float


def judge_experts(views: Sequence[View]) -> Judgement:
    """One finding for each group of experts whose busiest rank the others wait for."""
    groups = find_groups([view.split for view in views])
    findings: dict[tuple[int, ...], Finding] = {}
    for group in groups.values():
        if group.roles.get(ALL_TO_ALL) != EXPERT:
            continue
        members = tuple(v for v in views if np.any(v.split.arrivals.group == group.number))
        busiest = _busiest(members, group.number)
        if busiest:
            finding = _finding(busiest, group.number)
            findings.setdefault(finding.ranks, finding)
    return Judgement(tuple(findings.values()))


def _busiest(members: tuple[View, ...], number: int) -> _Busiest | None:
    """Ranks as busy as the busiest one count with it, up to half of the group."""
    compute = np.array([view.ms("compute") for view in members])
    least = least_ms(members)
    busy = compute > compute.max() - least
    if 2 * busy.sum() > len(members):
        return None
    views, others = (
        tuple(view for view, chosen in zip(members, which, strict=True) if chosen)
        for which in (busy, ~busy)
    )
    load = _load(members, number, busy)
    # Their own waits must be shorter: the others wait for them in the all-to-alls.
    waits = [float(np.median([_waiting_ms(v, number) for v in side])) for side in (others, views)]
    if 0 < load < LEAST_LOAD or waits[0] - waits[1] < least / 2:
        return None
    return _Busiest(views, others, float(compute[busy].mean() - compute.mean()), load)


def _waiting_ms(view: View, number: int) -> float:
    own, arrivals = view.facts.states.collectives, view.split.arrivals
    mine = (arrivals.group == number) & (own.kind == _ALL_TO_ALL) & (own.start >= view.start)
    start = own.start[mine]
    waits = np.clip(arrivals.last[mine], start, own.end[mine]) - start
    return float(waits.sum()) / view.steps / 1e6


def _load(members: Sequence[View], number: int, busy: NDArray[np.bool_]) -> float:
    """Tokens of these ranks' experts over the mean. A rank sends and gets its own batch, and gets
    and sends what its experts compute: of both together, as much is batch as experts on average."""
    total = np.array([_bytes(view, number) for view in members])
    return float(2 * total[busy].mean() / total.mean() - 1) if total.all() else 0.0


def _bytes(view: View, number: int) -> float:
    own, arrivals = view.facts.states.collectives, view.split.arrivals
    mine = (arrivals.group == number) & (own.kind == _ALL_TO_ALL) & (own.start >= view.start)
    messages = own.messages
    return float(messages.bytes[mine[messages.kernel]].sum())


def _finding(busiest: _Busiest, number: int) -> Finding:
    views, others = busiest.views, busiest.others
    ranks, rest = (format_ranks(view.rank for view in side) for side in (views, others))
    compute = [float(np.mean([v.ms("compute") for v in side])) for side in (views, others)]
    waits = [float(np.mean([_waiting_ms(v, number) for v in side])) for side in (views, others)]
    evidence = [
        f"compute: {ranks} {compute[0]:.2f} ms a step, {rest} {compute[1]:.2f} ms",
        f"waiting in all-to-alls: {ranks} {waits[0]:.2f} ms a step, {rest} {waits[1]:.2f} ms",
    ]
    if busiest.load:
        evidence.append(
            f"the experts of {ranks} get {busiest.load:.2f} times the mean of tokens, by the bytes "
            "of the all-to-alls"
        )
    numbers = tuple(sorted({view.rank for view in views}))
    return Finding("experts", numbers, "compute", busiest.excess_ms, tuple(evidence), ADVICE)
