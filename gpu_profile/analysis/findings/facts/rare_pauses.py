"""Pauses of the host that the replayed steps do not hold, or hold too many of.

The replay takes 20 steps at most. They hold none of the checkpoints in each 50th step, or one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.arrays.periods import FEWEST_TIMES
from gpu_profile.analysis.findings.view import RankView
from gpu_profile.analysis.replay.changes import LEAST_SHARE
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.fits import ALIKE, MOST_LONGER
from gpu_profile.analysis.replay.shadow.host_scale import FACTORS, scale_host
from gpu_profile.analysis.replay.shadow.shadow import Shadow
from gpu_profile.analysis.replay.step_times import SETTLING, measure_steps
from gpu_profile.analysis.replay.weights import Weights

STALLED = "idle_stall"
RARE, RARE_BY_CONTROL = 1.25, 3.0
"""From how many times as much, or as little, on the replayed steps are not like all others. A
control has the pauses of many steps: what the replayed ones hold was made to fit it."""


@dataclass(frozen=True)
class PauseTimes:
    """The idle time of pauses in ms a step: in all steady steps, and in those that are replayed.
    `has_control`: a control told the step without the profiler. `often_ms`: as steady_ms, without
    the pauses of the FEWEST_TIMES - 1 slowest steps where none is found to come in each n-th step.
    `mean_ms`: as steady_ms, with what came once.
    """

    steady_ms: float
    replayed_ms: float
    has_control: bool = False
    often_ms: float = 0.0
    mean_ms: float = 0.0

    def correct(self, gain_ms: float) -> float:
        """What pauses cost in all steps, given what the replay says of its own (ms a step)."""
        low, high = sorted((gain_ms, self.replayed_ms))
        rare = RARE_BY_CONTROL if self.has_control else RARE
        are_missing = rare * high <= self.steady_ms
        are_too_many = low >= rare * max(self.steady_ms, self.mean_ms)
        if not are_missing and not are_too_many:
            return gain_ms
        return max(0.0, gain_ms + self.steady_ms - self.replayed_ms)

    @property
    def missing_ms(self) -> float:
        """What all steps have and the replayed ones lack, where these are not like all others. A
        control has no step that was slow less than FEWEST_TIMES when recorded.
        """
        are_missing = RARE_BY_CONTROL * self.replayed_ms < self.often_ms
        return self.steady_ms - self.replayed_ms if are_missing else 0.0


@dataclass(frozen=True)
class RareCauses:
    """What the replayed steps hold less or more of than all others: `pauses` by rank, as of
    measure_pauses(), and `portions` by kind of finding, as of measure_portions().
    """

    pauses: Mapping[int, PauseTimes]
    portions: Mapping[str, float]

    def find_missing(self, ranks: Sequence[int]) -> float:
        """What the replayed steps lack of these ranks' pauses (ms a step): of the rank with most of
        them, for which the others wait.
        """
        missing = (self.pauses[rank].missing_ms for rank in ranks if rank in self.pauses)
        return max(missing, default=0.0)


def leave_out_rare(
    replay: Replay | str, control_ms: float, pauses: Mapping[int, PauseTimes]
) -> float:
    """The control of the replayed steps: a control is the mean of all steps, and has the rare
    pauses that the replayed ones lack. It is left as it is where no host is fast enough for the
    rest: then it has none of them.
    """
    missing = max((each.missing_ms for each in pauses.values()), default=0.0)
    if isinstance(replay, str) or not control_ms or missing <= LEAST_SHARE * control_ms:
        return control_ms
    fastest = scale_host(replay.graph, Weights.of(replay.graph), min(FACTORS))
    usual_ms = control_ms - missing
    return usual_ms if usual_ms >= replay.predict_step(fastest) else control_ms


def lengthen_rare(
    pauses: Mapping[int, PauseTimes], shadow: Shadow | None, usual_ms: float, control_ms: float
) -> Mapping[int, PauseTimes]:
    """The rare pauses of the control: what it takes beyond the replayed steps, which no host
    explains, is theirs. `usual_ms`: the control of the replayed steps, by leave_out_rare().
    """
    if shadow is None or usual_ms == control_ms:
        return pauses
    surplus = usual_ms - shadow.step_ms - shadow.callback_ms
    if surplus <= ALIKE * control_ms:
        return pauses
    longer = dict[int, PauseTimes]()
    for rank, each in pauses.items():
        more = min(surplus, (MOST_LONGER - 1) * each.missing_ms)
        longer[rank] = replace(each, steady_ms=each.steady_ms + more)
    return longer


def measure_pauses(
    views: Sequence[RankView], replay: Replay, has_control: bool = False
) -> Mapping[int, PauseTimes]:
    """The times of pauses by rank."""
    view_of = {(view.rank, view.states.device): view for view in views}
    times = dict[int, PauseTimes]()
    steps = measure_steps(replay.graph, replay.graph.time)
    for row, graph in enumerate(replay.graph.ranks):
        view = view_of[graph.rank, graph.device]
        replayed = _find_counted(view, graph, float(steps[row]))
        replayed_ms = float(np.mean(view.split.spent[STALLED][replayed])) / 1e6
        mean_ms = float(np.mean(view.steady(view.split.spent[STALLED]))) / 1e6
        steady_ms, often_ms = view.whole_ms(STALLED), _measure_often(view)
        times[graph.rank] = PauseTimes(steady_ms, replayed_ms, has_control, often_ms, mean_ms)
    return times


def _find_counted(view: RankView, graph: RankGraph, step_ns: float) -> slice:
    """The replayed steps that count, in arrays by window. A window begins with a step's first
    operation, and a replayed step ends with its last one: a pause between them is in the window
    before. So the windows are those that take as long as the replayed steps, or more nearly so.
    """
    lengths = view.states.end - view.states.start
    first = 2 + graph.first + (graph.count - 1) // SETTLING
    stop = 1 + graph.first + graph.count
    slices = [slice(first - early, stop - early) for early in (0, 1)]
    return min(slices, key=lambda counted: abs(float(lengths[counted].mean()) - step_ns))


def _measure_often(view: RankView) -> float:
    """PauseTimes.often_ms of a rank."""
    if view.is_periodic(STALLED):
        return view.whole_ms(STALLED)
    steady = np.sort(view.steady(view.split.spent[STALLED]))
    return float(steady[: 1 - FEWEST_TIMES].sum()) / view.steps / 1e6
