"""Finding exposed_communication: data moves between ranks and no kernel computes beside it."""

from collections.abc import Mapping, Sequence

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, Activity
from gpu_profile.analysis.activity.comm.lanes import UNMATCHED
from gpu_profile.analysis.findings.facts.windows import is_in_steady_part
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import RankView, View
from gpu_profile.analysis.modules.module_times import sum_by_module
from gpu_profile.analysis.replay.edits.causes import TRANSFERS
from gpu_profile.analysis.store.database import Database

COMM_ADVICE = (
    "Overlap or shrink it: larger or earlier buckets, gradient accumulation, lower precision, "
    "fewer and larger collectives; check that NCCL uses the fast links (invoke test --suite nccl)."
)

NOTED_SHARE = 0.10
"""The part of the step in communication of which nobody can tell whether it waits."""

ExposedTimes = Mapping[str, int]
"""ns of communication with no compute beside it by module; "" for what no module is known to own"""


def collect_exposed_times(activity: Activity, _: Database) -> ExposedTimes:
    """The exposed communication of one rank in its steady part."""
    ops = activity.ops
    rows = np.flatnonzero((ops.kind == COMMUNICATION) & is_in_steady_part(activity, ops.start))
    start, end = ops.start[rows], ops.end[rows]
    exposed = end - start - ops.measure_covered((COMPUTE,), start, end)
    times = sum_by_module(activity, rows, exposed)
    return {**times, "": int(exposed.sum()) - sum(times.values())}


def judge_exposed_communication(views: Sequence[View[ExposedTimes]]) -> Judgement:
    """Find communication that moves data without concurrent compute; waiting is not counted."""
    doubtful = [view for view in views if _may_wait_for_another_host(view, views)]
    exposed_views = [
        view for view in views if view.is_costly(view.ms("transfer")) and view not in doubtful
    ]
    states = [("unsplit", "transfer") if view in doubtful else ("unsplit",) for view in views]
    pairs = [
        (view, names)
        for view, names in zip(views, states, strict=True)
        if view.share(*names) >= NOTED_SHARE
    ]
    unsplit = [view for view, _ in pairs]
    notes: tuple[str, ...] = ()
    if unsplit:
        ms = float(np.mean([view.ms(*names) for view, names in pairs]))
        who = format_ranks(view.rank for view in unsplit)
        notes = (
            f"exposed communication of {who} ({ms:.2f} ms a step): without the other ranks' "
            "reports on one clock, waiting and transfer cannot be told apart",
        )
    return Judgement((_judge_communication(exposed_views),) if exposed_views else (), notes)


def _may_wait_for_another_host(view: RankView, views: Sequence[RankView]) -> bool:
    """Whether the collectives of a rank were matched on its own host only, of several hosts, and
    NCCL does not say who takes part.

    Ranks of another host, on an unknown clock, may be the ones that it waits for.
    """
    collectives, group = view.states.collectives, view.split.arrivals.group
    numbers = np.unique(group[group != UNMATCHED])
    partners = {v.common.host for v in views if np.isin(v.split.arrivals.group, numbers).any()}
    several = len({v.common.host for v in views}) > 1
    return several and len(partners) < 2 and not np.any(collectives.communicator)


def _judge_communication(views: Sequence[View[ExposedTimes]]) -> Finding:
    moving = float(np.mean([view.ms("transfer") for view in views]))
    step = float(np.mean([view.step_ms for view in views]))
    wait = float(np.mean([view.ms("wait") for view in views]))
    worst = max(views, key=lambda view: view.share("transfer"))
    ranks = tuple(sorted({view.rank for view in views}))
    times = worst.states.times
    total = worst.mean(times["communication"])
    hidden = 100 * worst.mean(times["hidden"]) / total if total else 0.0
    evidence = (
        f"{format_ranks(ranks)}: {moving:.2f} of {step:.2f} ms a step move data between ranks with "
        f"no compute beside (waiting for late ranks, {wait:.2f} ms, not counted)",
        f"rank {worst.rank}: compute hides {hidden:.0f} % of its communication",
        *_list_modules(worst),
    )
    return Finding("exposed_communication", ranks, "transfer", evidence, COMM_ADVICE)


def _list_modules(view: View[ExposedTimes]) -> list[str]:
    """Evidence which module owns most of what a rank's exposed communication moves."""
    owned = {name: ns for name, ns in view.fact.items() if name and ns > 0}
    if not owned:
        return []
    name = max(sorted(owned), key=lambda name: owned[name])
    share = 100 * owned[name] / sum(view.fact.values())
    return [f"rank {view.rank}: {share:.0f} % of it is of {name}"]


RULE = FindingRule(
    kind="exposed_communication",
    title="Exposed communication",
    collect=collect_exposed_times,
    judge=judge_exposed_communication,
    rows=(
        FindingRow(
            causes=("transfer",),
            when=(
                "collectives move data with no compute beside. Waiting for "
                "late ranks is not counted. Where the gradients of each micro-batch are reduced, "
                "the cost is that of all but the last one's"
            ),
        ),
    ),
    time_ms=lambda view, _: view.ms("transfer"),
    edit=lambda _finding: TRANSFERS,
)
