"""Bound the time that a run waits for an engine that does not answer."""

import time

from gpu_profile.errors import EngineAwayError
from gpu_profile.launcher import JobState, JobStatus
from gpu_profile.runs.record import RunRecord


class Absence:
    """Measures how long the engine of a run has not answered."""

    def __init__(self, run: RunRecord) -> None:
        self._run = run
        self._since: float | None = None

    def check(self, status: JobStatus) -> None:
        """Raise EngineAwayError once the state is UNKNOWN for longer than `patience_s`."""
        if status.state is not JobState.UNKNOWN or status.patience_s is None:
            self._since = None
            return
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since >= status.patience_s:
            reason = status.reason or "its engine does not answer"
            what = f"{self._run.handle} may run on: {reason}, for {status.patience_s:g} s now"
            raise EngineAwayError(what, f"`invoke fetch --job {self._run.id}` goes on")
