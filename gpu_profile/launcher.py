"""The interface of a launcher (docker, host, ssh, slurm, mpijob, …) and the types it uses.

A launcher describes commands and parses their output. It runs nothing: process.drive does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ClassVar, Protocol

from gpu_profile.command import Command, Steps
from gpu_profile.declared.check import Check
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan, Tool
from gpu_profile.job_status import JobStatus
from gpu_profile.remote_host import RemoteHost
from gpu_profile.settings.settings import Settings


class ImageFrom(Enum):
    """Which image the jobs of a launcher run in, if any."""

    NOWHERE = "no image: jobs run on the machine itself"
    SETTINGS = "the launcher's own setting, such as SLURM_IMAGE, in the cluster's spelling"
    ENGINE = "the engine of this machine, by the image's tag"
    REGISTRY = "the job's machine pulls it, by the digest that `invoke push` recorded"


class Carrying(Enum):
    """How nsys reaches a job whose image or machine has none."""

    NEVER = "not at all: the job has its own"
    VOLUME = "a read-only volume of the engine"
    INIT_CONTAINER = "an init container copies it from our image into an emptyDir"
    BIND_MOUNT = "the container runtime mounts a directory of the cluster"
    COPY = "a directory that is copied to the machine"


@dataclass(frozen=True, kw_only=True)
class Repair:
    """What `doctor --fix` would do, shown before it is done.

    `reason` is a sentence without its full stop: `No usable Docker Engine here. To install and
    start one`. `commands` are those that this user can run, with sudo where it is needed.
    """

    reason: str
    commands: tuple[Command, ...]


class Launcher(Protocol):
    """A place where jobs run. Methods return Steps, which process.drive runs.

    `submit` must not depend on the output of its own commands, because --dry-run prints them
    without running any: names and directories follow from the job's name.
    """

    possible_images: ClassVar[frozenset[ImageFrom]]
    """Where images may come from, whatever the settings are: {NOWHERE, SETTINGS} for slurm."""

    carrying: ClassVar[Carrying]
    """How nsys is carried to a job without it: Carrying.VOLUME for docker, COPY for ssh."""

    tools: ClassVar[frozenset[Tool]]
    """What records its jobs: {"nsys"}, and "torch" where our agent of this version starts them."""

    drills: ClassVar[bool]
    """Whether `drill` can run a command again there, under ncu: True for docker, host, ssh, slurm.
    """

    one_node: ClassVar[bool]
    """Whether a job runs on one machine only: True for docker, host and ssh."""

    @property
    def name(self) -> str:
        """The launcher's name in `--on` and in handles: `slurm` in `slurm://1234`."""

    @property
    def images(self) -> ImageFrom:
        """Where a job's image comes from: ImageFrom.ENGINE for docker, NOWHERE for host."""

    @property
    def one_task_per_gpu(self) -> bool:
        """Whether a job runs a task for each GPU without --ddp: True for slurm, where srun does."""

    @property
    def exports_in_job(self) -> bool:
        """Whether nsys exports to SQLite in the job, as its nsys is out of reach later: Kubernetes.

        Example: `fetch` from a pod brings `rank0.node1.nsys-rep` and `rank0.node1.sqlite`.
        """

    @property
    def reports_inside(self) -> str:
        """The folder in the job's container whose files all come home: `/wd` for docker.

        Empty where only reports are fetched.
        """

    @classmethod
    def from_settings(cls, settings: Settings) -> "Launcher":
        """Return the launcher of these settings: `SshLauncher(address="ubuntu@10.0.0.1")`.

        Raises SettingsError for settings that it cannot use.
        """

    @classmethod
    def with_image(cls, settings: Settings, image: str) -> Settings:
        """Return the settings with --image: in IMAGE for docker, in SLURM_IMAGE for slurm."""

    def doctor(self) -> Steps[tuple[Check, ...]]:
        """Return the checks of `doctor --on`: `Check(name="nsys", ok=True, result="2026.4.1")`."""

    def repair(self, *, is_root: bool, has_sudo: bool) -> Steps[Repair | None]:
        """Return what `doctor --fix` would install; None where nothing can be or has to be.

        Example: docker's installs and starts an engine. Raises ToolError if it takes root's rights
        and there are none.
        """

    def lacking(self) -> Steps[Mapping[str, str]]:
        """Return what the job's machine does not permit nsys, and why.

        Example: `{"sampling": "perf_event_paranoid is 4. As root: sysctl …"}`. Empty for a
        container, whose rights the job asks for.
        """

    def host(self) -> RemoteHost | None:
        """Return the machine whose driver `counters` may change: `RemoteHost(host="me@gpu")`.

        None where jobs run in containers, or where a scheduler chooses the machine.
        """

    def gpus(self) -> Steps[int | None]:
        """Return how many GPUs a job gets on one node, such as 8; None if only the engine knows."""

    def identity(self, job: Job) -> Steps[str]:
        """Return a key under which the nsys options of this job can be cached.

        Example: the image's id `sha256:0f3c…`. Empty where nsys may change in place: then it is
        asked each time.
        """

    def carry(self, job: Job, *, wanted: bool) -> Steps[Job]:
        """Return the job with a Carrier if its image has no nsys of ours, or if that is `wanted`.

        Example: docker fills a volume from our image. Kubernetes cannot tell an image before a pod
        runs: there `probe` raises NoNsysError, and then a Carrier is wanted. Raises ToolError
        where there is none.
        """

    def probe(self, job: Job) -> Steps[str]:
        """Return the output of `nsys profile --help` from the job's nsys: `-t, --trace= …`."""

    def check_job(self, job: Job, plan: NsysPlan) -> Steps[None]:
        """Raise SettingsError or ToolError for a job that cannot work, before it has a directory.

        Example: docker looks whether the container has the files that the command names.
        """

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        """Start the job with each chosen rank under nsys. Return its id: `1234` in Slurm."""

    def status(self, job_id: str) -> Steps[JobStatus]:
        """Return the job's present state: `JobStatus(state=JobState.FAILED, exit_code=1)`.

        UNKNOWN while a host or engine cannot be reached: the job may still run.
        """

    def require_own(self, job_id: str) -> Steps[None]:
        """Raise SettingsError for a job that `fetch` may not read here, before it has a directory.

        Example: slurm looks for our comment, kubernetes for our label.
        """

    def logs(self, job_id: str, *, follow: bool) -> Command:
        """Return the command that prints the job's output, such as `docker logs --follow NAME`.

        With `follow` it ends when the job ends.
        """

    def get_variables(self, job_id: str) -> Steps[Mapping[str, str]]:
        """Return the job's variables whose values its output may still show: `{"HF_TOKEN": "x"}`.

        `fetch` and `logs` hide the credentials among them; the process that submitted the job knows
        its --env. Raises ToolError where this user may not read them.
        """

    def stop(self, job_id: str) -> Steps[None]:
        """End the job so that nsys completes its reports, as by `docker stop`.

        A job that has ended is no error.
        """

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        """Copy the reports into `to`, such as `rank0.node1.nsys-rep`. Originals are kept."""

    def name_place(self, run: str) -> str:
        """Return where reports stay besides the run directory: `s3://team/night/train-1`, or ""."""

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


class LauncherDefaults:
    """The members of Launcher that most launchers answer alike. A class overrides the others."""

    drills: ClassVar[bool] = False
    one_task_per_gpu: ClassVar[bool] = False
    exports_in_job: ClassVar[bool] = False
    reports_inside: ClassVar[str] = ""
    carrying: ClassVar[Carrying] = Carrying.NEVER
    tools: ClassVar[frozenset[Tool]] = frozenset({"nsys"})

    def carry(self, job: Job, *, wanted: bool) -> Steps[Job]:
        """Return the job as it is: it has nsys of its own. Raises SettingsError if `wanted`."""
        yield from ()
        if wanted:
            raise SettingsError("nsys is not carried to such a job", "Use an image of ours")
        return job

    @classmethod
    def with_image(cls, settings: Settings, image: str) -> Settings:
        return settings.with_image(image)

    def repair(self, *, is_root: bool, has_sudo: bool) -> Steps[Repair | None]:
        """Return None: there is nothing that this machine could install."""
        yield from ()
        return None

    def identity(self, job: Job) -> Steps[str]:
        """Return the empty key: nsys may be upgraded in place, so it is asked each time."""
        yield from ()
        return ""

    def check_job(self, job: Job, plan: NsysPlan) -> Steps[None]:
        """Raise nothing: what the job lacks shows when it starts."""
        yield from ()

    def name_place(self, run: str) -> str:
        """Return "": reports are in the run directory alone."""
        return ""

    def require_own(self, job_id: str) -> Steps[None]:
        """Raise nothing: `status` has refused a directory in which there is no job of ours."""
        yield from ()

    def lacking(self) -> Steps[Mapping[str, str]]:
        """Return nothing: the job itself asks for the rights that it needs."""
        yield from ()
        return {}

    def get_variables(self, job_id: str) -> Steps[Mapping[str, str]]:
        """Return nothing: our agent beside the job hides its credentials."""
        yield from ()
        return {}

    def host(self) -> RemoteHost | None:
        """Return None: no machine of the user runs the job by itself."""
        return None
