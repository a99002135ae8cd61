"""Marks of garbage collections. Python 3.8, stdlib only."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.ranges import SWITCH

from gpu_profile_pauses.pause_marks import GARBAGE
from gpu_profile_pauses.unpatched import get_ident, perf_counter_ns

if TYPE_CHECKING:
    from gpu_profile_pauses.pause_marks import PauseMarks

# A mark costs about 2 us. The youngest objects are collected in 10 to 50 us, up to thousands of
# times a second.
LEAST_NS = 100_000


class GarbageMarks:
    """A callback of `gc` (docs.python.org/3/library/gc.html#gc.callbacks)."""

    def __init__(self, marks: PauseMarks) -> None:
        self._marks = marks
        self._thread = 0
        self._began = 0

    def register(self) -> None:
        gc.callbacks.append(self.collected)

    def collected(self, phase: str, _facts: Any) -> None:  # noqa: ANN401 - a dict
        if phase == "start":
            self._thread, self._began = get_ident(), perf_counter_ns()
            return
        ns = perf_counter_ns() - self._began
        if ns < LEAST_NS or not SWITCH.on or self._thread != get_ident():
            return
        SWITCH.guard(self._marks.write, GARBAGE, ns)
