"""What the replay needs of a rank beside its graph: when its steps were, and whom it met when."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.comm.collectives import collectives_of, match_collectives
from gpu_profile.analysis.activity.comm.lanes import Arrivals, Collectives
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.steps import Steps


class ReplayedRank(Protocol):
    """The steps and the communication of one rank, on the run's clock. RankStates has them, too."""

    @property
    def rank(self) -> int: ...
    @property
    def device(self) -> int: ...
    @property
    def steps(self) -> Steps: ...
    @property
    def collectives(self) -> Collectives: ...


class MatchedRank(Protocol):
    """The same with the arrivals of the other ranks. RankSplit is one."""

    @property
    def states(self) -> ReplayedRank: ...
    @property
    def arrivals(self) -> Arrivals: ...


@dataclass(frozen=True, eq=False)
class RankTimes:
    """What a ReplayedRank has, alone: a twentieth of a rank's states, in a tenth of their time."""

    rank: int
    device: int
    steps: Steps
    collectives: Collectives


@dataclass(frozen=True, eq=False)
class _Matched:
    states: ReplayedRank
    arrivals: Arrivals


def find_rank_times(activity: Activity, offset_ns: int) -> RankTimes:
    """The times of one rank by a clock that is `offset_ns` ahead."""
    steps = find_steps(activity).moved(offset_ns)
    collectives = collectives_of(activity, offset_ns)
    return RankTimes(activity.rank, activity.device, steps, collectives)


def match_ranks(ranks: Sequence[ReplayedRank], clock_error_ns: int) -> Sequence[MatchedRank]:
    """All ranks in rank order, with their arrivals."""
    ordered = sorted(ranks, key=lambda part: (part.rank, part.device))
    if not ordered:
        return ()
    arrivals = match_collectives([part.collectives for part in ordered], clock_error_ns)
    return [_Matched(*pair) for pair in zip(ordered, arrivals, strict=True)]
