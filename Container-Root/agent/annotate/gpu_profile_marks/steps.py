"""Count the steps of a program from its optimizer calls. Python 3.8, stdlib only.

A step is what lies between two forwards of the outermost module that contain an optimizer call:
gradient accumulation has several forwards in a step. Where several optimizers take turns (a GAN),
a step contains a call of each.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gpu_profile_marks.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable

STEP, FORWARD = "step", "forward"
"""What is counted: steps, and forwards where no optimizer was made (forwards.py)."""
_MOST_TIMES = 100_000
_MOST_SEARCHES = 20  # for optimizers


class Steps:
    """The steps so far: `number` is that of the open one, -1 before the first forward.

    `forward`, `backward` and `optimizer` time the host in these phases of a step, where hooks
    surround them.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.number = -1
        self.unit = STEP
        self.times_s: list[float] = []
        self._clock = clock
        self._began = 0.0
        self.forward, self.backward, self.optimizer = _make_stopwatches(clock)
        self._last_call = 0.0
        self._called: set[int] = set()
        self._cycle: set[int] = set()
        self._known: set[int] = set()
        self._searches = _MOST_SEARCHES
        self._forward_since = False

    def begins_at_forward(self) -> bool:
        """Return whether a new step begins with this forward of the outermost module."""
        if self.number < 0:
            return True
        if not self._called:
            return False
        self._forward_since = True
        return self._cycle <= self._called

    def begin(self) -> int:
        """Begin the next step. Returns its number, from 0."""
        now = self._clock()
        keep = self.number >= 0 and len(self.times_s) < _MOST_TIMES
        if keep:
            self.times_s.append(now - self._began)
        for stopwatch in self._list_stopwatches().values():
            stopwatch.end_step(keep=keep)
        self.number += 1
        self._began = now
        self._called = set()
        self._forward_since = False
        return self.number

    def begin_again(self) -> None:
        """Forget what was counted: the program had not begun to train."""
        self.number, self.unit, self.times_s = -1, STEP, []
        self.forward, self.backward, self.optimizer = _make_stopwatches(self._clock)

    def leave_out(self) -> None:
        """Begin the open step's time again: its beginning held the start of the recording."""
        self._began = self._clock()

    def call(self, optimizer: int, others: Callable[[], set[int]]) -> None:
        """Count a call of an optimizer. `others` returns all that may take turns with it.

        One that is called again before the others were is not waiting for them. A new one may
        have replaced those that it shares parameters with.
        """
        if optimizer not in self._known and self._searches:
            self._searches -= 1
            self._cycle = others() | {optimizer}
            self._known |= self._cycle
        elif optimizer in self._called and self._forward_since:
            self._cycle = set(self._called)
        self._cycle.add(optimizer)
        self._called.add(optimizer)
        self._last_call = self._clock()

    def made(self) -> int:
        """Return how many steps have an optimizer call."""
        return self.number + 1 if self._called else max(self.number, 0)

    def times(self) -> list[float]:
        """Return the seconds of each step. The open step ends at its last optimizer call."""
        return [*self.times_s, self._last_call - self._began] if self._called else self.times_s

    def phases(self) -> dict[str, list[float]]:
        """Return the seconds of the host in each phase, by step as times(); none of a phase that no
        hook has seen.
        """
        times = {
            name: [*phase.times_s, phase.open_s] if self._called else phase.times_s
            for name, phase in self._list_stopwatches().items()
        }
        return {name: seconds for name, seconds in times.items() if any(seconds)}

    def _list_stopwatches(self) -> dict[str, Stopwatch]:
        return {"forward": self.forward, "backward": self.backward, "optimizer": self.optimizer}


def _make_stopwatches(clock: Callable[[], float]) -> tuple[Stopwatch, Stopwatch, Stopwatch]:
    return Stopwatch(clock), Stopwatch(clock), Stopwatch(clock)
