"""A job and how to profile it, as frozen values: Job, Resources, ProfileSpec, NsysPlan."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from gpu_profile.carrier import Carrier
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.declared.kinds import MOST_RANKS
from gpu_profile.declared.launchers import LAUNCHERS, is_launcher
from gpu_profile.errors import SettingsError

Annotate = Literal["none", "steps", "modules", "ops"]

RecordAt = Literal["start", "manual", "endpoint"]
RECORD_AT: tuple[RecordAt, ...] = get_args(RecordAt)

Tool = Literal["nsys", "torch"]
TOOLS: tuple[Tool, ...] = get_args(Tool)

Preset = Literal["light", "comm", "serve", "full"]
PRESETS: tuple[Preset, ...] = get_args(Preset)


REPORTS_INSIDE = "/wd"
"""Where a job's run directory is mounted in a container or pod."""

FINALISE_S = 3900
"""What a job that is stopped gets. Its agent lets nsys work on a report for 3600 s (LONGEST_S)."""


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A directory that the job sees as `target` in its container."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a job asks for.

    `gpus_per_node` None means all GPUs of a node, `tasks_per_node` None one task for each GPU.
    """

    nodes: int = 1
    gpus_per_node: int | None = None
    tasks_per_node: int | None = None
    cpus_per_task: int | None = None
    memory_gb: int | None = None
    efa_per_node: int = 0


@dataclass(frozen=True, kw_only=True)
class ProfileSpec:
    """Options of `nsys profile` under nsys' own names. None or empty: the preset decides."""

    preset: Preset = "light"
    trace: str = ""
    sample: str = ""
    capture_range: str = ""
    capture_range_end: str = ""
    delay_s: float | None = None
    duration_s: float | None = None
    python_functions_trace: Path | None = None
    nvtx_domain_include: str = ""
    nvtx_domain_exclude: str = ""
    cuda_graph_trace: str = ""
    gpu_metrics: bool | None = None
    nic_metrics: bool | None = None
    stats: bool = False
    export: str = ""
    ranks: frozenset[int] | None = None
    """The ranks to profile; None means all."""
    annotate: Annotate = "steps"
    """What is marked in a PyTorch program, from outside."""
    steps: tuple[int, int] | None = None
    """Record the steps from the first number to before the second, as in (20, 40)."""
    whole: bool = False
    """Record a program with marks to its end, not only until the recording holds enough steps."""
    record: RecordAt = "start"
    """`manual`: nsys is there and records nothing until `invoke record` asks for a window.
    `endpoint`: until the program calls cudaProfilerStart, each time that it does."""
    nsys_args: tuple[str, ...] = ()
    tool: Tool = "nsys"
    """`torch`: the program's own torch.profiler records, started by the marks; no nsys is used."""


@dataclass(frozen=True, kw_only=True)
class NcuPlan:
    """The options of `ncu` for one rank, which ends after `limit_s` seconds."""

    rank: int
    options: tuple[str, ...]
    limit_s: float


@dataclass(frozen=True, kw_only=True)
class Job:
    """A command to run under nsys. `name` is the run id and the name of the run directory."""

    name: str
    command: tuple[str, ...]
    image: ImageRef | None = None
    profile: ProfileSpec | None = field(default_factory=ProfileSpec)
    """None runs the command without nsys, to measure the baseline of --baseline."""
    has_step_times: bool = False
    """Without nsys, whether marks of a PyTorch program write the times of its steps."""
    ncu: NcuPlan | None = None
    """Without nsys, what one rank measures under Nsight Compute."""
    resources: Resources = field(default_factory=Resources)
    ddp: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    workdir: str = ""
    """The directory of the container where it works, with the user's uid; empty: the image's."""
    least_ranks: int = 0
    """How many ranks there are at least, where only the job itself knows; 0: as `resources` say."""
    carrier: Carrier | None = None
    """nsys and our agent for an image that has neither; None where the job has its own."""

    @property
    def is_by_torch(self) -> bool:
        """Whether the program's own torch.profiler records it, and no nsys."""
        return self.profile is not None and self.profile.tool == "torch"

    @property
    def profile_words(self) -> tuple[str, ...]:
        """The words that start profile.py in a container or pod, before its options."""
        return self.carrier.profile if self.carrier else ("python3", "/profile.py")


@dataclass(frozen=True, kw_only=True)
class Handle:
    """The address of a job: `slurm://1234`, `mpijob://namespace/name`, `deployment://team/web`."""

    launcher: str
    id: str

    def __str__(self) -> str:
        return f"{self.launcher}://{self.id}"

    @classmethod
    def parse(cls, text: str) -> "Handle":
        """Return the handle of `LAUNCHER://ID`. Raises SettingsError."""
        launcher, _, job_id = text.partition("://")
        if is_launcher(launcher) and job_id and not job_id.startswith("-"):
            return cls(launcher=launcher, id=job_id)
        raise SettingsError(
            f"{text!r} is not a job handle",
            f"Use LAUNCHER://ID with a launcher of {', '.join(LAUNCHERS)}",
        )


def parse_steps(text: str) -> tuple[int, int] | None:
    """Return (20, 40) of `20:40`, and None of "". Raises SettingsError."""
    if not text:
        return None
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise SettingsError(f"--steps {text!r} is not a range of steps", "Use 20:40 for 20 to 39")
    return int(match[1]), int(match[2])


def parse_ranks(text: str) -> frozenset[int] | None:
    """Return the ranks of `0,3` or `0-3`; None for `all`. Raises SettingsError."""
    if text == "all":
        return None
    ranks: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            raise SettingsError(f"--ranks {text!r} is not a list of ranks", "Use all, 0,3 or 0-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last >= MOST_RANKS:
            raise SettingsError(f"--ranks names rank {last}", f"Use ranks below {MOST_RANKS}")
        ranks.update(range(first, last + 1))
    if not ranks:
        raise SettingsError(f"--ranks {text!r} names no rank", "Write the smaller one first: 0-3")
    return frozenset(ranks)


@dataclass(frozen=True, kw_only=True)
class NsysPlan:
    """The options of `nsys profile` for every rank, and further ones for local rank 0.

    `needs_privileges`: the options need CAP_SYS_ADMIN (CPU sampling, hardware counters).
    """

    options: tuple[str, ...]
    first: tuple[str, ...] = ()
    needs_privileges: bool = False
