"""The program without the profiler, as weights of the replay."""

from dataclasses import dataclass

from gpu_profile.analysis.replay.weights import Weights


@dataclass(frozen=True, eq=False)
class Shadow:
    """`factor`: of the recorded host delays, what is left without the profiler. `step_ms`: the step
    of the unchanged replay with that factor. `weights` are those of that replay. `is_measured`: the
    control tells the factor; else it is TYPICAL_FACTOR. `pause_factor`: how many times as long the
    host's pauses are in the control. `callback_ms`: how much longer the control's step is, for nsys
    was still in the process.
    """

    factor: float
    step_ms: float
    weights: Weights
    is_measured: bool = True
    pause_factor: float = 1.0
    callback_ms: float = 0.0
