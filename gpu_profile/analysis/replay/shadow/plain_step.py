"""What a run tells of the step that was not recorded."""

from typing import NamedTuple

PHASES = ("forward", "backward", "optimizer")
Ratios = tuple[float, float, float]
"""Of the host's time in each of PHASES, what the control takes; 0: unknown."""
UNKNOWN: Ratios = (0.0, 0.0, 0.0)


class PlainStep(NamedTuple):
    """A step (ms) that was not recorded, 0 where none is known. `callback_ns`: what the profiler
    still takes of each call of CUDA in it. `ratio`: of its time to that of the recorded step, where
    forwards tell that alone; else 0. `phases`: such ratios of the host's time.
    """

    ms: float = 0.0
    callback_ns: int = 0
    ratio: float = 0.0
    phases: Ratios = UNKNOWN

    def find_ms(self, recorded_ms: float) -> float:
        return self.ms or self.ratio * recorded_ms


NO_STEP = PlainStep()
