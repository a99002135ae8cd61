"""The steps of a rank as a value: when the host issued each, and when the GPU worked on it."""

from dataclasses import dataclass, field, replace

import numpy as np

from gpu_profile.analysis.arrays.types import Flags, IntArray


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of one rank: of a training, or an engine's iterations. `host_*`: when the host issued
    each step. `start`, `end`: when the GPU worked on it.

    A step lasts on the GPU from its first operation to the first one of the next step, so the times
    of the steps add up, and an idle gap belongs to the step before it. The last step of one of
    several windows ends with its window. `source` is "range NAME", "repetition of 291 launches", or
    "" without steps; then `why_none` holds the reason, e.g. "no 3 stretches of launches are alike".
    `confidence` is 1 for ranges, else the part of the steps that launch what the typical step does.
    `number`: the numbers of the steps in the program, from 0, as --annotate marks them; else empty.
    `evaluation_ns`: ns on the GPU between each step and the next, which an evaluation takes; empty
    where none was looked for.

    Of iterations, `kind` is of serving.marks.KINDS, `batch` the number of requests (NOT_TOLD where
    unknown). `ends_empty`: no request was left after it; `empty_ns`: the ns after it
    in which there was none. Else all are empty.
    """

    source: str
    host_start: IntArray
    host_end: IntArray
    start: IntArray
    end: IntArray
    confidence: float = 1.0
    why_none: str = ""
    number: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    evaluation_ns: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    kind: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    batch: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    ends_empty: Flags = field(default_factory=lambda: np.empty(0, np.bool_))
    empty_ns: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def are_iterations(self) -> bool:
        """Whether they are an engine's iterations, whose kinds are looked at."""
        return len(self.kind) > 0

    def __len__(self) -> int:
        return len(self.start)

    def moved(self, by: int) -> "Steps":
        """The same steps with `by` ns added to all times."""
        return replace(
            self,
            host_start=self.host_start + by,
            host_end=self.host_end + by,
            start=self.start + by,
            end=self.end + by,
        )


_NONE = np.empty(0, np.int64)
NO_STEPS = Steps("", _NONE, _NONE, _NONE, _NONE, confidence=0.0)
