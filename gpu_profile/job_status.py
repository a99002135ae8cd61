"""The state of a job at one moment: `JobStatus(state=JobState.FAILED, exit_code=1)`."""

from dataclasses import dataclass
from enum import Enum


class JobState(Enum):
    """The state of a job. UNKNOWN: its engine does not answer at the moment."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def is_finished(self) -> bool:
        return self in {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """The state of a job at one moment.

    `reason` is the engine's own text: Slurm's `Resources`, a pod's `ImagePullBackOff`, `out of
    memory`. `exit_code` is None until the job has ended. `patience_s`: how long a run waits for an
    engine whose state is UNKNOWN, such as 120; None for as long as it takes.
    """

    state: JobState
    reason: str = ""
    exit_code: int | None = None
    patience_s: float | None = None
