"""The flags of stats, diagnose, what-if, html, timeline, compare, scrub and trace-file."""

from dataclasses import dataclass

from gpu_profile.cli.options.shared import (
    DryRunOptions,
    FormatOptions,
    OutputOptions,
    ReadOptions,
    SchedulerOptions,
    SetOptions,
    WindowOptions,
)
from gpu_profile.cli.verb import VerbOptions, make_flag


@dataclass(frozen=True, kw_only=True)
class StatsOptions(FormatOptions, WindowOptions, SchedulerOptions, ReadOptions):
    table: str = make_flag("", "names, separated by commas")
    list: bool = make_flag(False, "list all tables")
    by: str = make_flag("", "rank, device or stream; of modules: module, class or line")
    depth: int = make_flag(0, "of modules: how many parts of the name; 0: all", kind="count")
    top: int = make_flag(0, "rows of each table; 0: all", kind="count")
    between: str = make_flag(
        "", "of event_trace: start and end on the run's clock, 1.5s:1510ms", kind="interval"
    )
    filter: str = make_flag("", "rows whose text matches this pattern")
    names: str = make_flag("short", "short or full kernel names in text", choices=("short", "full"))
    notes: bool = True
    """Whether to print notes on the reports. No flag: profile has printed them before."""


@dataclass(frozen=True, kw_only=True)
class ControlOptions(VerbOptions):
    control_ms: float = make_flag(
        0.0,
        "the step without the profiler in ms; default: that of the run's --baseline, or of its "
        "steps after the recording",
        kind="number",
    )


@dataclass(frozen=True, kw_only=True)
class DiagnoseOptions(ControlOptions, FormatOptions, WindowOptions, SchedulerOptions, ReadOptions):
    requests: str = make_flag(
        "", "log of a server's requests: JSON lines, or what a load generator wrote", kind="path"
    )


@dataclass(frozen=True, kw_only=True)
class WhatIfOptions(ControlOptions, FormatOptions, WindowOptions, SchedulerOptions, ReadOptions):
    remove: tuple[str, ...] = make_flag(
        (), "finding:N of diagnose, or a cause of its plan ('host pauses'); may be given again"
    )
    faster: tuple[str, ...] = make_flag(
        (), "PATTERN=N: kernels with such names are N times as fast; may be given again"
    )
    bandwidth: float = make_flag(1.0, "communication is so many times as fast", kind="number")


@dataclass(frozen=True, kw_only=True)
class HtmlOptions(OutputOptions, WindowOptions, SchedulerOptions, ReadOptions):
    open: bool = make_flag(False, "show the page in the browser of this machine")


@dataclass(frozen=True, kw_only=True)
class OpenOptions(DryRunOptions, ReadOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class TimelineOptions(OutputOptions, WindowOptions, ReadOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class ScrubOptions(OutputOptions, ReadOptions):
    keep: tuple[str, ...] = make_flag((), "text to leave in; may be given again")
    also: tuple[str, ...] = make_flag((), "text to take out as well; may be given again")
    keep_blobs: bool = make_flag(False, "leave binary values in, cleaned and searched")


@dataclass(frozen=True, kw_only=True)
class CompareOptions(OutputOptions, SchedulerOptions, SetOptions):
    base: tuple[str, ...] = make_flag((), "run id or directory to compare with; may be given again")
    new: tuple[str, ...] = make_flag((), "run id or directory to judge; may be given again")
    base_window: int = make_flag(0, "one window of the base; 0: all", kind="count")
    new_window: int = make_flag(0, "one window of the new run; 0: all", kind="count")
    fail_over: str = make_flag(
        "5%", "fail if the new side is slower by more than this, and significantly", kind="percent"
    )
    spread: str = make_flag(
        "",
        "by how much runs of one program differ, if too few are given to measure it; "
        "default: COMPARE_SPREAD",
        kind="percent",
    )
    require_decision: bool = make_flag(
        False, "fail (exit code 8) if too few steps or runs allow no verdict"
    )
    metric: str = make_flag("step", "step, gpu, range:NAME, module:NAME or kernel:NAME")
    format: str = make_flag(
        "text",
        "text, json, markdown, junit, or html: both runs side by side",
        choices=("text", "json", "markdown", "junit", "html"),
    )


@dataclass(frozen=True, kw_only=True)
class TraceFileOptions(OutputOptions):
    function: tuple[str, ...] = make_flag(
        (), "package.module:function; any number of them", positional=True
    )
    domain: str = make_flag("", "NVTX domain")
    category: str = make_flag("", "NVTX category")
    color: str = make_flag("", "colour, as 0xRRGGBB")
