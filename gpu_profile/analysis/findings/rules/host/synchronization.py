"""Finding synchronization: blocking calls in the steps left the GPU without work."""

from collections.abc import Mapping, Sequence

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.idle.gaps import SYNC
from gpu_profile.analysis.findings.facts.blocking import BlockingTime, sum_blocking_calls
from gpu_profile.analysis.findings.finding import Judgement
from gpu_profile.analysis.findings.idle_time import judge_state, list_places
from gpu_profile.analysis.findings.places import find_longest_gap
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule
from gpu_profile.analysis.findings.view import LEAST_FREQUENCY, RankView, View
from gpu_profile.analysis.replay.edits.causes import WAITS
from gpu_profile.analysis.replay.plan.make_plan import TOKEN_WAITS
from gpu_profile.analysis.store.database import Database

# A call that returns sooner did not wait (with nothing to wait for it takes 2 to 4 us, and the
# host's work around it 10 to 30 in PyTorch): such calls cost something where they are many.
HELD_NS = 5_000
HELD_PART = 1 / 10
"""Of the least time that is told. The profiler slows the host, so that its calls wait less: the
reads of a ResNet-50 held it for 2 % of the recorded step, and cost 9 % without the profiler; those
of 12 layers 0.7 %, and 15 %; 99 checks of distributions 0.56 %, and 8 %. Calls for which nothing
was left to wait held it for 0.1 % at most in 11 recordings."""
MOST_CALLS = 4
SHORT_PART = 0.1
"""Of the longest wait: a call after it, for which nothing is left to wait, takes 5 of 1,300 us."""
SYNC_ADVICE = (
    "Do not ask for results in the step: no .item(), .cpu(), print(tensor) or synchronize(); "
    "log every n-th step, keep sums on the GPU, copy with non_blocking=True. Checks of values ask "
    "for results, too: torch.distributions makes them unless validate_args is False."
)


BlockingCalls = Mapping[str, BlockingTime]
"""The blocking calls of a rank by name."""


def collect_blocking_calls(activity: Activity, _: Database) -> BlockingCalls:
    """The blocking calls of one rank."""
    return sum_blocking_calls(activity)


def judge_synchronization(views: Sequence[View[BlockingCalls]]) -> Judgement:
    """Find calls in the steps that block the host.

    The finding names all ranks that make the calls, also those whose hosts they do not hold.
    """
    held_views = [view for view in views if _is_held(view) and not _asks_for_tokens(view)]
    names = {name for view in held_views for name in _list_habits(view)}
    blocked_views = [
        v for v in views if any(_frequency(v, name) >= LEAST_FREQUENCY for name in names)
    ]
    return judge_state("synchronization", "sync", blocked_views, _list_evidence, SYNC_ADVICE)


def _per_step(view: View[BlockingCalls], name: str) -> float:
    return view.mean(view.fact[name].count) if name in view.fact else 0.0


def _frequency(view: View[BlockingCalls], name: str) -> float:
    return view.frequency(view.fact[name].count) if name in view.fact else 0.0


def _list_habits(view: View[BlockingCalls]) -> list[str]:
    """The synchronising calls that this rank makes in most steps and that hold the host, each or
    all together: a wait that never blocks costs its call.
    """
    least_ns = HELD_PART * view.least_ms * 1e6
    return [
        name
        for name, call in sorted(view.fact.items())
        if not call.copies
        and view.frequency(call.count) >= LEAST_FREQUENCY
        and view.mean(call.held_ns) >= min(HELD_NS * view.mean(call.count), least_ns)
    ]


def _is_held(view: View[BlockingCalls]) -> bool:
    held = sum(view.mean(view.fact[name].held_ns) for name in _list_habits(view)) / 1e6
    return held > 0 and held >= HELD_PART * view.least_ms


def _asks_for_tokens(view: View[BlockingCalls]) -> bool:
    """Whether an engine waits once an iteration, as it does for its tokens: by a blocking copy, or
    by a call after it. Of both one holds the host.
    """
    held = {name: view.mean(view.fact[name].held_ns) for name in _list_habits(view)}
    longest = max(held.values(), default=0.0)
    waits = sum(_per_step(view, name) for name, ns in held.items() if ns >= SHORT_PART * longest)
    return view.states.steps.are_iterations and waits < TOKEN_WAITS


def _longest_held(view: View[BlockingCalls]) -> list[str]:
    """The calls that block the host in most steps, longest first; blocking copies included."""
    calls = view.fact
    copies = [name for name, call in calls.items() if call.copies]
    names = _list_habits(view)
    names += [name for name in copies if _frequency(view, name) >= LEAST_FREQUENCY]
    held = {name: view.mean(calls[name].held_ns) for name in names}
    ordered = sorted(held, key=lambda name: (-held[name], name))
    return [name for name in ordered[:MOST_CALLS] if held[name] >= 0.01 * held[ordered[0]]]


def _idle_ms(view: RankView) -> float:
    return view.ms("idle_sync")


def _list_evidence(views: Sequence[View[BlockingCalls]]) -> tuple[str, ...]:
    worst = max(views, key=_idle_ms)
    calls = [
        f"rank {worst.rank}: {name}, {_per_step(worst, name):.1f} times a step, held the host "
        f"{worst.mean(worst.fact[name].held_ns) / 1e6:.2f} ms a step"
        for name in _longest_held(worst)
    ]
    return (*_describe_idle(worst), *calls, *list_places(views, SYNC))


def _describe_idle(view: RankView) -> tuple[str, ...]:
    if not view.is_costly(_idle_ms(view)):
        return ()
    return (
        f"rank {view.rank}: {_idle_ms(view):.2f} of {view.step_ms:.2f} ms a step idle because a "
        "call waited for the GPU and used up the host's lead",
    )


RULE = FindingRule(
    kind="synchronization",
    title="Needless synchronisation",
    collect=collect_blocking_calls,
    judge=judge_synchronization,
    rows=(
        FindingRow(
            causes=("sync",),
            when=(
                "calls block the host in every other step or more, for 5 us each or longer, or "
                "together for 0.3 % of the step, which is what calls cost that find the GPU idle. "
                "An engine waits for its tokens once an iteration: that is none. With the reads of "
                "SyncBatchNorm goes all that gathers its statistics from the ranks"
            ),
        ),
    ),
    time_ms=lambda view, _: _idle_ms(view),
    edit=lambda _finding: WAITS,
    place=find_longest_gap(SYNC),
)
