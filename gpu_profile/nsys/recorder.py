"""The interface of a launcher whose jobs can be recorded while they run, and the types it uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gpu_profile.carrier import CARRIED_TO
from gpu_profile.command import Steps
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job

AGENT = f"{CARRIED_TO}/agent/record_windows.py"
"""The file in an image of ours that records on demand. Images from before 2026-11-25 have none."""


def is_armed(job: Job) -> bool:
    return job.profile is not None and job.profile.record == "manual"


def make_old_image_error(image: object) -> SettingsError:
    what = f"{image} is older than recording on demand: its profile.py has no --record"
    return SettingsError(what, "Build it again: `invoke build`, and `invoke push` for a cluster")


@dataclass(frozen=True, kw_only=True)
class WindowRequest:
    """What to record: `seconds`, of the ranks `ranks`; none means all that are armed.

    With `steps` it ends behind that many whole steps, and behind `seconds` at the latest.
    """

    seconds: float
    steps: int = 0
    ranks: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class RankWindow:
    """What became of a window in one rank. `report`: its file in the run directory.

    `why`: the reason for which it is lost, empty for a report. `note`: why it ended early.
    """

    name: str
    report: str = ""
    why: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Window:
    """A window of a job, with the number that its reports have: `rank0.node1.3.nsys-rep`."""

    number: int
    ranks: tuple[RankWindow, ...]
    began: Mapping[str, float]
    """Seconds since the epoch by rank's name, of those that recorded."""


@runtime_checkable
class Recorder(Protocol):
    """A launcher that reaches the agents beside a job's ranks."""

    def record(self, job_id: str, request: WindowRequest) -> Steps[Window]:
        """Record a window in all ranks at once, and wait for their reports on the job's machine.

        Raises SettingsError where no rank is armed. The job goes on.
        """
