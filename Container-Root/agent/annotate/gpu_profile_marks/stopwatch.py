"""Time the host in a phase of each step. Python 3.8, stdlib only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_ANY = 1


class Stopwatch:
    """The seconds of one phase in each step: `times_s`. A start and its end take 0.3 us.

    `holder` is the id of what the phase is of. A phase inside one of another holder counts once: a
    wrapper of an optimizer calls the other's step, which has hooks of its own.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.times_s: list[float] = []
        self.open_s = 0.0
        self._clock = clock
        self._began = 0.0
        self._holder = 0

    def start(self, holder: int = _ANY) -> None:
        # The same one begins again where its phase raised an exception: torch called no hook then.
        if self._holder in (0, holder):
            self._holder, self._began = holder, self._clock()

    def stop(self, holder: int = _ANY) -> None:
        if self._holder == holder:
            self.open_s += self._clock() - self._began
            self._holder = 0

    def end_step(self, *, keep: bool) -> None:
        """Begin the next step. `keep`: the time of the last one."""
        if keep:
            self.times_s.append(self.open_s)
        self.open_s = 0.0
        self._holder = 0
