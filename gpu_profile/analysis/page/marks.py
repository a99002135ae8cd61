"""Named intervals of a row of the timeline."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray


@dataclass(frozen=True, eq=False)
class Marks:
    """Named intervals, sorted by start, on the run's clock. `lane` is the row in which they are
    drawn, or of the critical path their kind.
    """

    start: IntArray
    end: IntArray
    name: IntArray
    lane: IntArray
    names: tuple[str, ...]


_NONE = np.empty(0, np.int64)
NO_MARKS = Marks(_NONE, _NONE, _NONE, _NONE, ())
