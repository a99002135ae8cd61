"""The program without the profiler, as weights of the replay."""

from dataclasses import dataclass

from gpu_profile.analysis.replay.weights import Weights


@dataclass(frozen=True, eq=False)
class Shadow:
    """`factor`: of the recorded host delays, what is left without the profiler. `step_ms`: the step
    of the unchanged replay with that factor. `weights` are those of that replay. `factors`: the
    least and the most that it may be, where no control tells it. `pause_factor`: how many times as
    long the host's pauses are in the control. `callback_ms`: how much longer the control's step is,
    for nsys was still in the process. `timed_in`: the phases in which the factor was measured.
    """

    factor: float
    step_ms: float
    weights: Weights
    factors: tuple[float, float] | None = None
    pause_factor: float = 1.0
    callback_ms: float = 0.0
    timed_in: tuple[str, ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether a control tells the factor."""
        return self.factors is None
