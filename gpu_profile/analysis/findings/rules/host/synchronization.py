"""Finding synchronization: blocking calls in the steps left the GPU without work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.idle import SYNC, sync_shadow
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.blocking import BlockingTime, sum_blocking_calls
from gpu_profile.analysis.findings.facts.windows import list_windows
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.idle_time import (
    list_places,
    make_idle_finding,
    note_missing_steps,
)
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import LEAST_FREQUENCY, RankView, View
from gpu_profile.analysis.replay.changes import Change, remove_waits
from gpu_profile.analysis.store.database import Database

# The calls must cost 1 % of the step in idle time. Where they hold the host for a quarter of the
# step, 0.3 % are enough, as the host has no lead then.
SYNC_SHARE = 0.01
HELD_SHARE, HELD_SYNC_SHARE = 0.25, 0.003
# A call that returns sooner did not wait (with nothing to wait for it takes 2 to 4 us).
HELD_NS = 5_000
MOST_CALLS = 4
# From half of the cost on, a reader who adds the findings up would be wrong.
OVERLAP_SHARE = 0.5
SYNC_ADVICE = (
    "Do not ask for results in the step: no .item(), .cpu(), print(tensor) or synchronize(); "
    "log every n-th step, keep sums on the GPU, copy with non_blocking=True."
)


@dataclass(frozen=True, eq=False)
class Synchronization:
    """`cost`: idle ns by window that synchronisation causes. `calls`: by name."""

    cost: IntArray
    calls: Mapping[str, BlockingTime]


def collect_synchronization(activity: Activity, _: Database) -> Synchronization:
    """The blocking calls of one rank, and what they cost its GPU."""
    cost = list_windows(activity).sum(*sync_shadow(activity))
    return Synchronization(cost, sum_blocking_calls(activity))


def judge_synchronization(views: Sequence[View[Synchronization]]) -> Judgement:
    """Find blocking calls in the steps that left the GPU without work afterwards.

    The finding names all ranks that make the calls, also those that do not lose time by them.
    """
    paying = [view for view in views if _list_habits(view) and _sync_costs(view)]
    if not paying:
        return Judgement()
    names = {name for view in paying for name in _list_habits(view)}
    blocked_views = [
        v for v in views if any(_frequency(v, name) >= LEAST_FREQUENCY for name in names)
    ]
    gain = float(np.mean([view.mean(view.fact.cost) for view in paying])) / 1e6
    evidence = (*_sync_evidence(paying), *note_missing_steps(paying))
    return Judgement(
        (make_idle_finding("synchronization", "sync", blocked_views, gain, evidence, SYNC_ADVICE),)
    )


def _per_step(view: View[Synchronization], name: str) -> float:
    return view.mean(view.fact.calls[name].count) if name in view.fact.calls else 0.0


def _frequency(view: View[Synchronization], name: str) -> float:
    return view.frequency(view.fact.calls[name].count) if name in view.fact.calls else 0.0


def _list_habits(view: View[Synchronization]) -> list[str]:
    """The synchronising calls that this rank makes in most steps and that block the host."""
    return [
        name
        for name, call in sorted(view.fact.calls.items())
        if not call.copies
        and view.frequency(call.count) >= LEAST_FREQUENCY
        and view.mean(call.held) >= HELD_NS * view.mean(call.count)
    ]


def _longest_held(view: View[Synchronization]) -> list[str]:
    """The calls that block the host in most steps, longest first; blocking copies included."""
    calls = view.fact.calls
    copies = [name for name, call in calls.items() if call.copies]
    names = _list_habits(view)
    names += [name for name in copies if _frequency(view, name) >= LEAST_FREQUENCY]
    held = {name: view.mean(calls[name].held) for name in names}
    ordered = sorted(held, key=lambda name: (-held[name], name))
    return [name for name in ordered[:MOST_CALLS] if held[name] >= 0.01 * held[ordered[0]]]


def _sync_share(view: View[Synchronization]) -> float:
    return view.mean(view.fact.cost) / 1e6 / view.step_ms if view.step_ms else 0.0


def _sync_costs(view: View[Synchronization]) -> bool:
    held = sum(view.mean(view.fact.calls[name].held) for name in _list_habits(view))
    habit = held / 1e6 >= HELD_SHARE * view.step_ms
    return _sync_share(view) >= (HELD_SYNC_SHARE if habit else SYNC_SHARE)


def _sync_evidence(views: Sequence[View[Synchronization]]) -> tuple[str, ...]:
    worst = max(views, key=_sync_share)
    cost = worst.mean(worst.fact.cost) / 1e6
    calls = [
        f"rank {worst.rank}: {name}, {_per_step(worst, name):.1f} times a step, held the host "
        f"{worst.mean(worst.fact.calls[name].held) / 1e6:.2f} ms a step"
        for name in _longest_held(worst)
    ]
    return (
        f"rank {worst.rank}: {cost:.2f} of {worst.step_ms:.2f} ms a step idle because a call "
        "waited for the GPU and used up the host's lead",
        *calls,
        *_describe_overlap(worst, cost),
        *list_places(views, SYNC),
    )


def _describe_overlap(view: RankView, cost: float) -> tuple[str, ...]:
    """A line if most of the cost (ms a step) is also the cost of finding `idle`: sync_shadow()."""
    overlap = min(cost - view.ms("idle_sync"), view.ms("idle_stall"))
    if overlap < OVERLAP_SHARE * cost:
        return ()
    return (
        f"rank {view.rank}: {overlap:.2f} ms of it is also idle while the host issued nothing for "
        "long: less work of the host there saves the same time",
    )


RULE = FindingRule(
    kind="synchronization",
    title="Needless synchronisation",
    collect=collect_synchronization,
    judge=judge_synchronization,
    rows=(
        FindingRow(
            causes=("sync",),
            when=(
                "blocking calls in every other step or more cost 1 % of the step in idle GPU time "
                "(0.3 % where they hold the host for a quarter of the step)"
            ),
        ),
    ),
    edit=lambda finding: Change("waits for the GPU", remove_waits(finding.ranks)),
)
