"""The interface of a launcher whose jobs can be recorded while they run, and the types it uses."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from gpu_profile.carrier import CARRIED_TO
from gpu_profile.command import Steps
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job

AGENT = f"{CARRIED_TO}/agent/record_windows.py"
"""The file in an image of ours that records on demand. Images from before 2026-11-25 have none."""
OFF = "off"
"""The word of --every that ends a schedule."""
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_BETWEEN_S = 10.0
"""nsys takes 1 to 5 s for the report of 300,000 events, and more where the machine is busy."""


def is_armed(job: Job) -> bool:
    return job.profile is not None and job.profile.record == "manual"


def make_old_image_error(image: object) -> SettingsError:
    """Return the error on an image whose agent cannot record on demand."""
    what = f"{image} is older than recording on demand: its profile.py has no --record"
    return SettingsError(what, "Build it again: `invoke build`, and `invoke push` for a cluster")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Windows that the agents record by themselves: one each `every_s`, the latest `keep` are kept.

    `every_s` 0 ends it.
    """

    every_s: float
    keep: int


def parse_schedule(every: str, keep: int, seconds: float) -> Schedule:
    """Return the schedule of `10m`, for windows of so many seconds. Raises SettingsError."""
    match = re.fullmatch(r"(\d{1,6})([smh])", every)
    if match is None:
        raise SettingsError(f"--every {every!r} is not a time", "Use 10m, 90s or 1h; off ends it")
    every_s = int(match[1]) * _SECONDS[match[2]]
    if every_s < seconds + _BETWEEN_S:
        what = f"--every {every} leaves nsys no time for its report of {seconds:g} s"
        raise SettingsError(what, f"Use --every {math.ceil(seconds + _BETWEEN_S)}s or longer")
    if not keep:
        raise SettingsError("--keep 0 leaves no window", "Use --keep 48")
    return Schedule(every_s=every_s, keep=keep)


@dataclass(frozen=True, kw_only=True)
class WindowRequest:
    """What to record: `seconds`, of the ranks `ranks`; none means all that are armed.

    With `steps` it ends after that many whole steps, and after `seconds` at the latest. With a
    `schedule` the window is the first of many, and is not waited for. Its number is above
    `last_window`, the last that was brought here: a pod that was made anew under its name has none
    of its own.
    """

    seconds: float
    steps: int = 0
    schedule: Schedule | None = None
    ranks: frozenset[int] = frozenset()
    last_window: int = 0


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
