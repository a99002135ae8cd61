"""Finding: the stages of a pipeline take different times, and one stage slows all others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.comm.match_calls import number_owners
from gpu_profile.analysis.activity.comm.roles import PIPELINE, find_groups
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.finding import Finding, Judgement, format_ranks
from gpu_profile.analysis.findings.places import find_longest_wait
from gpu_profile.analysis.findings.rule import FindingRow, FindingRule, collect_nothing
from gpu_profile.analysis.findings.view import RankView
from gpu_profile.analysis.replay.edits.causes import UNEQUAL_COMPUTE
from gpu_profile.analysis.tables.comm_kernels import KINDS, SEND_RECV

# The slowest stage must wait less than the others by 10 % of a step. Even stages differ by a few
# percent, because the first and last ones also run the embedding and the loss.
LEAST_DIFFERENCE = 0.1
ADVICE = (
    "Give this stage fewer layers, or the others more, until all stages take the same time for a "
    "microbatch (mind the embedding of the first stage and the loss of the last); more "
    "microbatches make what is left of the bubble smaller."
)
_SEND_RECV = KINDS.index(SEND_RECV)


@dataclass(frozen=True, eq=False)
class _Stages:
    """The stages of a pipeline: `views` by stage, `bubble` (the part of a step that each stage
    waits), `messages` from a stage to the next one in a step, and the time of a step.
    """

    views: tuple[tuple[RankView, ...], ...]
    bubble: NDArray[np.float64]
    messages: int
    step_ms: float

    @property
    def ideal(self) -> float:
        """The bubble of p even stages and m microbatches, (p - 1) / (m + p - 1) (GPipe, 1F1B)."""
        stages = len(self.views)
        return (stages - 1) / (self.messages + stages - 1)


def judge_pipeline(views: Sequence[RankView]) -> Judgement:
    """At most one finding, for the stage that the others wait for."""
    chains = _find_chains(views)
    if not chains:
        return Judgement()
    length = max(len(chain) for chain in chains)
    chains = [chain for chain in chains if len(chain) == length]
    period = _find_period([view for chain in chains for view in chain])
    if period is None:
        return Judgement(unjudged=("the stages of the pipeline: single steps are not known",))
    stages = _merge_stages(chains, period)
    bound = int(np.argmin(stages.bubble))
    # Without it: with two stages the median of all would be between both.
    others = np.delete(stages.bubble, bound)
    if float(np.median(others)) - stages.bubble[bound] < LEAST_DIFFERENCE:
        return Judgement()
    return Judgement((_make_finding(stages, bound),))


def _find_chains(views: Sequence[RankView]) -> list[tuple[RankView, ...]]:
    """The pipelines, each a tuple of views in the order of the stages, that is of the ranks."""
    edges = _find_edges(views)
    home = list(range(len(views)))
    for index, other in edges:
        old, new = home[index], home[other]
        home = [new if place == old else place for place in home]
    chains = [
        tuple(view for view, place in zip(views, home, strict=True) if place == number)
        for number in sorted(set(home))
    ]
    return [chain for chain in chains if len(chain) > 1]


def _find_edges(views: Sequence[RankView]) -> set[tuple[int, int]]:
    """Pairs of views (by index) that exchange messages of a pipeline."""
    groups = find_groups([view.split for view in views])
    collectives = [view.states.collectives for view in views]
    pipelines = {
        int(communicator)
        for view, of_rank in zip(views, collectives, strict=True)
        for number, group in groups.items()
        if group.roles.get(SEND_RECV) == PIPELINE
        for communicator in list_distinct(of_rank.communicator[view.split.arrivals.group == number])
    }
    pairs = set()
    for communicator in pipelines:
        owners = number_owners(collectives, communicator)
        for index in owners.values():
            of_rank = collectives[index]
            is_message = of_rank.communicator[of_rank.messages.kernel] == communicator
            is_message &= of_rank.kind[of_rank.messages.kernel] == _SEND_RECV
            peers = list_distinct(of_rank.messages.peer[is_message])
            pairs |= {(index, owners[peer]) for peer in peers if peer in owners}
    return {(index, other) for index, other in pairs if index != other}


@dataclass(frozen=True)
class _Period:
    """The time of the steady steps on the run's clock, and their number."""

    start: int
    end: int
    steps: int

    def holds(self, time: IntArray) -> NDArray[np.bool_]:
        return np.asarray((time >= self.start) & (time < self.end))


def _find_period(views: Sequence[RankView]) -> _Period | None:
    """The steady period of the rank with most steps, or None without steps.

    All ranks of a pipeline step together, but a rank that mostly waits may have no steps found.
    """
    with_steps = [view for view in views if view.has_steps]
    if not with_steps:
        return None
    view = max(with_steps, key=lambda candidate: candidate.steps)
    return _Period(view.start, view.end, view.steps)


def _merge_stages(chains: Sequence[tuple[RankView, ...]], period: _Period) -> _Stages:
    """The stages; those of parallel pipelines (with data or tensor parallelism) are merged."""
    views = tuple(zip(*chains, strict=True))
    bubble = np.array(
        [np.mean([_measure_waiting(view, period) for view in stage]) for stage in views]
    )
    counts = [_count_messages(view, period) for stage in views for view in stage]
    step = (period.end - period.start) / period.steps / 1e6
    return _Stages(views, bubble, max(1, round(float(np.median(counts)))), step)


def _measure_waiting(view: RankView, period: _Period) -> float:
    """The part of the time in which the rank waits in point-to-point kernels without compute."""
    collectives, arrivals = view.states.collectives, view.split.arrivals
    is_message = (
        arrivals.is_matched & (collectives.kind == _SEND_RECV) & period.holds(collectives.start)
    )
    start = collectives.start[is_message]
    waits = Intervals.union(
        start, np.clip(arrivals.last[is_message], start, collectives.end[is_message])
    )
    waits = waits.meet(view.states.exposed)
    return waits.total / max(1, period.end - period.start)


def _count_messages(view: RankView, period: _Period) -> float:
    """The largest number of messages from the rank to one other rank in a step.

    It is the number of microbatches, because a stage sends each one to the next stage.
    """
    collectives = view.states.collectives
    messages = collectives.messages
    is_sent = messages.sends & period.holds(collectives.start[messages.kernel])
    is_sent &= collectives.kind[messages.kernel] == _SEND_RECV
    counts = [
        int((is_sent & (messages.peer == peer)).sum())
        for peer in list_distinct(messages.peer[is_sent])
    ]
    return max(counts, default=0) / period.steps


def _make_finding(stages: _Stages, bound: int) -> Finding:
    step, work = stages.step_ms, 1 - stages.bubble
    ranks = tuple(sorted(view.rank for view in stages.views[bound]))
    bubbles = ", ".join(
        f"stage {number} ({format_ranks(view.rank for view in stage)}) {100 * bubble:.0f} %"
        for number, (stage, bubble) in enumerate(zip(stages.views, stages.bubble, strict=True))
    )
    others = (view.rank for n, stage in enumerate(stages.views) if n != bound for view in stage)
    return Finding(
        "pipeline",
        ranks,
        "stage",
        (
            f"of a mean step of {step:.2f} ms each stage waits for the others: {bubbles}",
            f"ideal for {len(stages.views)} even stages and {stages.messages} microbatches: "
            f"{100 * stages.ideal:.0f} %, (p - 1) / (m + p - 1)",
            f"stage {bound} works {step * work[bound]:.2f} ms a step, the mean stage "
            f"{step * work.mean():.2f} ms",
            *_why(stages.views[bound][0]),
        ),
        ADVICE,
        payers=tuple(sorted(others)),
    )


def _why(view: RankView) -> tuple[str, ...]:
    """Evidence whether the slowest stage's time is spent on its GPU or its host."""
    if not view.has_steps:
        return ()
    idle = view.ms("idle_launch", "idle_stall", "idle_sync", "idle_copy")
    return (
        f"rank {view.rank}: {view.ms('compute'):.2f} ms a step of compute, {idle:.2f} ms in which "
        "its GPU waits for its own host",
    )


def _explains(_: Sequence[Finding], other: Finding) -> bool:
    """Whether a rank is late because its stage of the pipeline has more work."""
    return other.kind == "straggler"


RULE = FindingRule(
    kind="pipeline",
    title="Uneven pipeline",
    collect=collect_nothing,
    judge=judge_pipeline,
    rows=(
        FindingRow(
            causes=("stage",),
            when=(
                "one stage of a pipeline waits less for the others than they wait for it, by 10 % "
                "of the step. `ranks` is that stage. The evidence compares each stage's bubble "
                "with the ideal (p - 1) / (m + p - 1) of p stages and m microbatches: 4 stages "
                "and 12 microbatches have 20 %"
            ),
        ),
    ),
    explains=_explains,
    time_ms=lambda view, _: view.ms("wait"),
    edit=lambda _finding: UNEQUAL_COMPUTE,
    place=find_longest_wait,
)
