"""What a launcher is: commands out, text in. Nothing here or in a launcher runs anything."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import ToolError
from gpu_profile.job import Job, LauncherName, NsysPlan


class ImageFrom(Enum):
    """Where a launcher's jobs have their image from."""

    NOWHERE = "they run on the machine itself"
    SETTINGS = "the launcher's own settings name one, in the cluster's words"
    ENGINE = "this machine's engine, by its tag"
    REGISTRY = "pulled elsewhere, by the digest that push was told: a tag may have moved"


class JobState(Enum):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def finished(self) -> bool:
        return self in {JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """`reason` is the engine's own word for why: a queue's, a pod's, a signal's."""

    state: JobState
    reason: str = ""
    exit_code: int | None = None


def ask_command(question: Command) -> Steps[str]:
    """The answer of one command; a ToolError where it has none."""
    return read_answer((yield question))


def read_answer(result: Result) -> str:
    if result.returncode:
        raise ToolError(f"nsys does not say its options: {result.said}", "See `invoke doctor`")
    return result.stdout


def make_no_identity() -> Steps[str]:
    """The identity of an nsys that may change under its name."""
    yield from ()
    return ""


class Launcher(Protocol):
    """One engine. Each method describes what to do as Steps, which process.drive runs.

    `submit` must not depend on the answers of its own commands, so that --dry-run can print
    them all: names and directories follow from the job's name.
    """

    @property
    def name(self) -> LauncherName: ...

    @property
    def images(self) -> ImageFrom: ...

    @property
    def one_node(self) -> bool:
        """Its jobs are one machine's: there are no more nodes to ask for."""

    def gpus(self) -> Steps[int | None]:
        """GPUs of a node that a job here would have; None where only the engine knows."""

    def identity(self) -> Steps[str]:
        """What names the nsys that jobs here use, such as an image's id; empty where nothing
        does, and it has to be asked each time."""

    def probe(self, job: Job) -> Steps[str]:
        """What `nsys profile --help` says with the nsys that the job will use."""

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        """Start the job, each chosen rank under nsys, and return its id."""

    def status(self, job_id: str) -> Steps[JobStatus]: ...

    def logs(self, job_id: str, *, follow: bool) -> Command: ...

    def stop(self, job_id: str) -> Steps[None]:
        """End the job so that nsys finalises its reports. Stopping a finished job is no error."""

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        """Copy the job's reports into `to`, leaving the originals where they are."""

    def export(self, job_id: str, report: Path, output: Path) -> Command | None:
        """Export a fetched report to the SQLite file `output` with the job's own nsys; None where
        only another nsys of this machine can. `output` lies in a folder of the report's own."""

    def cleanup(self, job_id: str) -> Steps[None]:
        """Remove what the job left on the engine: called after its reports were validated."""
