"""The flags of profile, fetch, reports, run, exec, status, logs, stop and test."""

from dataclasses import dataclass
from typing import ClassVar

from gpu_profile.cli.options.shared import (
    AnswerOptions,
    DryRunOptions,
    FormatOptions,
    JobOptions,
    JobOrContainerOptions,
    ProgramOptions,
    SetOptions,
    SettingsOptions,
    ShapeOptions,
    WhereOptions,
    YesOptions,
)
from gpu_profile.cli.verb import make_flag
from gpu_profile.job import PRESETS, RECORD_AT, TOOLS
from gpu_profile.nccl.floors import PLATFORMS

KEPT = 48
"""How many windows of --every are left, unless --keep says it."""
_RANGES = ("none", "cudaProfilerApi", "nvtx", "hotkey")


@dataclass(frozen=True, kw_only=True)
class NsysOptions:
    """What nsys records, and in which ranks."""

    group: ClassVar[str] = "What nsys records"
    with_: str = make_flag(
        "nsys", "torch: by the program's own torch.profiler, without nsys", choices=TOOLS
    )
    ranks: str = make_flag("all", "ranks to profile: all, 0,3 or 0-3", kind="ranks")
    preset: str = make_flag("light", "light, comm, serve or full", choices=PRESETS)
    trace: str = make_flag("", "nsys: what to trace")
    sample: str = make_flag("", "nsys: CPU sampling")
    capture_range: str = make_flag("", "nsys: none, cudaProfilerApi or nvtx", choices=_RANGES)
    capture_range_end: str = make_flag("", "nsys: stop, stop-shutdown, repeat[:N], …")
    annotate: str = make_flag(
        "", "marks in a PyTorch program: none, steps, modules or ops", "ANNOTATE"
    )
    steps: str = make_flag("", "record steps 20 to 39 of a PyTorch program: 20:40")
    whole: bool = make_flag(
        False, "record to the program's end, not until enough steps are recorded"
    )
    record: str = make_flag(
        "start", "manual, endpoint: nothing until `invoke record` asks", choices=RECORD_AT
    )
    delay: float = make_flag(0.0, "nsys: seconds before recording", kind="number")
    duration: float = make_flag(0.0, "nsys: seconds of recording; the job goes on", kind="number")
    python_functions_trace: str = make_flag("", "nsys: JSON file of functions to trace")
    nvtx_domain_include: str = make_flag("", "nsys: NVTX domains to record")
    nvtx_domain_exclude: str = make_flag("", "nsys: NVTX domains to leave out")
    cuda_graph_trace: str = make_flag("", "nsys: graph or node")
    gpu_metrics: bool = make_flag(False, "hardware counters, on local rank 0")
    nic_metrics: bool = make_flag(False, "network counters, on local rank 0")
    stats: bool = make_flag(False, "tables at the end, ours here and nsys' own in the job's output")
    export: str = make_flag("", "nsys: export in the job")
    nsys_args: str = make_flag("", "more options of nsys, passed on unchanged")


@dataclass(frozen=True, kw_only=True)
class ProfileOptions(
    NsysOptions, DryRunOptions, AnswerOptions, WhereOptions, ShapeOptions, ProgramOptions
):
    manifest: str = make_flag(
        "", "your own Kubernetes objects, sbatch script or compose file", kind="path"
    )
    container: str = make_flag("", "manifest: the container or service that is profiled")
    template: str = make_flag("", "manifest: path of the pod template in a kind of your own")
    yes: bool = make_flag(False, "manifest: replace the pods of what runs, without asking")
    strict: bool = make_flag(False, "refuse a preset that the job's machine permits only in part")
    carry: bool = make_flag(False, "bring nsys to an image or machine that has none")
    baseline: bool = make_flag(False, "run without nsys first, and say what the profile costs")
    detach: bool = make_flag(False, "return once it is submitted")
    keep: bool = make_flag(False, "keep the job's container, pods or remote directory")


@dataclass(frozen=True, kw_only=True)
class RecordOptions(JobOptions, WhereOptions):
    seconds: float = make_flag(0.0, "seconds to record", kind="number")
    steps: int = make_flag(0, "steps to record, of a program with marks", kind="count")
    url: str = make_flag("", "a server's address: it has /start_profile (--record endpoint)")
    every: str = make_flag("", "have a window recorded again and again: 10m; off ends that")
    keep: str = make_flag(
        "", f"every: leave this many of the latest windows; default: {KEPT}", kind="count"
    )
    ranks: str = make_flag("all", "ranks to record: all, 0,3 or 0-3", kind="ranks")


@dataclass(frozen=True, kw_only=True)
class DrillOptions(DryRunOptions, FormatOptions, WhereOptions):
    run: str = make_flag("", "run id, name or handle; default: the latest")
    top: int = make_flag(3, "how many kernels", kind="count")
    rank: int = make_flag(0, "the rank that ncu measures", kind="count")
    limit: float = make_flag(300.0, "seconds until the job is ended", kind="number")
    env: tuple[str, ...] = make_flag(
        (), "variable for the job; may be given again", kind="variable", value="NAME[=VALUE]"
    )
    mount: tuple[str, ...] = make_flag(
        (), "as for profile; may be given again", kind="mount", value="DIR"
    )


@dataclass(frozen=True, kw_only=True)
class FetchOptions(JobOptions, AnswerOptions, WhereOptions):
    stats: bool = make_flag(False, "tables at the end")


@dataclass(frozen=True, kw_only=True)
class ReportsOptions(FormatOptions, SetOptions, DryRunOptions, YesOptions):
    prune: bool = make_flag(False, "remove old runs of yours, after showing them")
    keep: int = make_flag(0, "prune: keep this many of the latest runs", kind="count")
    older: str = make_flag("", "prune: runs that began longer ago: 12h, 30d, 4w")
    tag: str = make_flag(
        "", "give the run of --run a name, for compare --base NAME", kind="run-name"
    )
    untag: str = make_flag("", "take this name away from its run", kind="run-name")
    trend: bool = make_flag(False, "compare the windows of --run: step, idle, communication")
    run: str = make_flag("", "tag, trend: run id, name or handle; default: the latest")


@dataclass(frozen=True, kw_only=True)
class RunOptions(DryRunOptions, SettingsOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class ExecOptions(SettingsOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class StatusOptions(JobOrContainerOptions, WhereOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class LogsOptions(JobOrContainerOptions, WhereOptions):
    follow: bool = make_flag(False, "go on printing until the job ends")


@dataclass(frozen=True, kw_only=True)
class StopOptions(JobOrContainerOptions, WhereOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class TestOptions(DryRunOptions, WhereOptions, ShapeOptions):
    suite: str = make_flag("image", "image or nccl", choices=("image", "nccl"))
    collective: str = make_flag("all_reduce", "nccl: names, separated by commas")
    min_busbw: float = make_flag(0.0, "nccl: bus bandwidth to reach, in GB/s", kind="number")
    at: str = make_flag("1G", "nccl: message size for --min-busbw", kind="bytes")
    floor: str = make_flag(
        "", "nccl: instance type whose measured floor is the gate", choices=PLATFORMS
    )
    junit: str = make_flag("", "file for a JUnit report")
