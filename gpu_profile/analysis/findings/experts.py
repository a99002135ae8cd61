"""Expert parallelism in which one rank gets more tokens than the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.comm.roles import EXPERT, find_groups
from gpu_profile.analysis.findings.arrivals import least_ms
from gpu_profile.analysis.findings.finding import Finding, Judgement, View, listed
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
    """The view that computes most among `members`, by how many ms a step it is above their mean,
    and its tokens over the mean's (0 where the messages' sizes are not known)."""

    view: View
    members: tuple[View, ...]
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
    compute = np.array([view.ms("compute") for view in members])
    place = int(np.argmax(compute))
    others = [view for index, view in enumerate(members) if index != place]
    excess = float(compute[place] - compute.mean())
    load = _load(members, number, place)
    even = 0 < load < LEAST_LOAD
    # Its own waits must be shorter: the others wait for it in the all-to-alls.
    waits = [_waiting_ms(view, number) for view in others]
    waited = float(np.median(waits)) - _waiting_ms(members[place], number)
    least = least_ms(members)
    if even or float(compute[place] - np.median(np.delete(compute, place))) < least:
        return None
    return _Busiest(members[place], members, excess, load) if waited >= least / 2 else None


def _waiting_ms(view: View, number: int) -> float:
    own, arrivals = view.facts.states.collectives, view.split.arrivals
    mine = (arrivals.group == number) & (own.kind == _ALL_TO_ALL) & (own.start >= view.start)
    start = own.start[mine]
    waits = np.clip(arrivals.last[mine], start, own.end[mine]) - start
    return float(waits.sum()) / view.steps / 1e6


def _load(members: Sequence[View], number: int, place: int) -> float:
    """Tokens of a rank's experts over the mean. A rank sends and gets its own batch, and gets and
    sends what its experts compute: of both together, as much is batch as experts on average."""
    total = np.array([_bytes(view, number) for view in members])
    return float(2 * total[place] / total.mean() - 1) if total.all() else 0.0


def _bytes(view: View, number: int) -> float:
    own, arrivals = view.facts.states.collectives, view.split.arrivals
    mine = (arrivals.group == number) & (own.kind == _ALL_TO_ALL) & (own.start >= view.start)
    messages = own.messages
    return float(messages.bytes[mine[messages.kernel]].sum())


def _finding(busiest: _Busiest, number: int) -> Finding:
    view, members = busiest.view, busiest.members
    others = [one for one in members if one is not view]
    usual = float(np.median([one.ms("compute") for one in others]))
    waits = float(np.mean([_waiting_ms(one, number) for one in others]))
    evidence = [
        f"rank {view.rank} computes {view.ms('compute'):.2f} ms a step, the typical other of "
        f"{listed(one.rank for one in members)} {usual:.2f} ms",
        f"waiting in all-to-alls: {listed(one.rank for one in others)} {waits:.2f} ms a step, rank "
        f"{view.rank} {_waiting_ms(view, number):.2f} ms",
    ]
    if busiest.load:
        evidence.append(
            f"the experts of rank {view.rank} get {busiest.load:.2f} times the mean of tokens, by "
            "the bytes of the all-to-alls"
        )
    return Finding("experts", (view.rank,), "compute", busiest.excess_ms, tuple(evidence), ADVICE)
