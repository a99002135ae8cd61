"""The interface of a launcher (docker, host, ssh, slurm, mpijob, …) and the types it uses.

A launcher describes commands and parses their output. It runs nothing: process.drive does.
"""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import ToolError
from gpu_profile.job import Job, LauncherName, NsysPlan


class ImageFrom(Enum):
    """Which image the jobs of a launcher run in, if any."""

    NOWHERE = "no image: jobs run on the machine itself"
    SETTINGS = "the launcher's own setting, such as SLURM_IMAGE, in the cluster's spelling"
    ENGINE = "the engine of this machine, by the image's tag"
    REGISTRY = "the job's machine pulls it, by the digest that `invoke push` recorded"


class JobState(Enum):
    """The state of a job. UNKNOWN: its engine does not answer at the moment."""

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
    """The state of a job at one moment.

    `reason` is the engine's own text: Slurm's `Resources`, a pod's `ImagePullBackOff`, `out of
    memory`. `exit_code` is None until the job has ended. `patience_s`: how long a run waits for an
    engine whose state is UNKNOWN, such as 120; None for as long as it takes.
    """

    state: JobState
    reason: str = ""
    exit_code: int | None = None
    patience_s: float | None = None


def ask_command(question: Command) -> Steps[str]:
    """Return the standard output of one command. Raises ToolError if it fails."""
    return read_answer((yield question))


def read_answer(result: Result) -> str:
    """Return the standard output. Raises ToolError if the command failed."""
    if result.returncode:
        raise ToolError(f"nsys does not say its options: {result.said}", "See `invoke doctor`")
    return result.stdout


def make_no_identity() -> Steps[str]:
    """Return the empty identity: nsys may be upgraded in place, so it is asked each time."""
    yield from ()
    return ""


class Launcher(Protocol):
    """A place where jobs run. Methods return Steps, which process.drive runs.

    `submit` must not depend on the output of its own commands, because --dry-run prints them
    without running any: names and directories follow from the job's name.
    """

    @property
    def name(self) -> LauncherName:
        """The launcher's name in `--on` and in handles: `slurm` in `slurm://1234`."""

    @property
    def images(self) -> ImageFrom:
        """Where a job's image comes from: ImageFrom.ENGINE for docker, NOWHERE for host."""

    @property
    def one_node(self) -> bool:
        """Whether a job runs on one machine only: True for docker, host and ssh."""

    def gpus(self) -> Steps[int | None]:
        """Return how many GPUs a job gets on one node, such as 8; None if only the engine knows."""

    def identity(self) -> Steps[str]:
        """Return a key under which the nsys options of this job can be cached.

        Example: the image's id `sha256:0f3c…`. Empty where nsys may change in place: then it is
        asked each time.
        """

    def probe(self, job: Job) -> Steps[str]:
        """Return the output of `nsys profile --help` from the job's nsys: `-t, --trace= …`."""

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        """Start the job with each chosen rank under nsys. Return its id: `1234` in Slurm."""

    def status(self, job_id: str) -> Steps[JobStatus]:
        """Return the job's present state: `JobStatus(state=JobState.FAILED, exit_code=1)`.

        UNKNOWN while a host or engine cannot be reached: the job may still run.
        """

    def logs(self, job_id: str, *, follow: bool) -> Command:
        """Return the command that prints the job's output, such as `docker logs --follow NAME`.

        With `follow` it ends when the job ends.
        """

    def stop(self, job_id: str) -> Steps[None]:
        """End the job so that nsys completes its reports, as by `docker stop`.

        A job that has ended is no error.
        """

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        """Copy the reports into `to`, such as `rank0.node1.nsys-rep`. Originals are kept."""

    def export(self, job_id: str, report: Path, output: Path) -> Command | None:
        """Return the command that exports a fetched report to SQLite with the job's own nsys.

        None where the job's nsys cannot be reached (Kubernetes): then an nsys of this machine does
        it. `output` is a path such as `/tmp/x/rank0.node1.sqlite` in a folder that holds nothing
        else.
        """

    def cleanup(self, job_id: str) -> Steps[None]:
        """Remove what the job left on the engine: its container, its pods, its remote directory.

        Called after the reports were fetched and validated.
        """
