"""profile --with torch: what records the job, and which flags only nsys has."""

from collections.abc import Collection
from dataclasses import fields

from gpu_profile.cli.jobs import name_launchers
from gpu_profile.cli.options.jobs import NsysOptions, ProfileOptions
from gpu_profile.errors import SettingsError
from gpu_profile.job import Annotate, Job
from gpu_profile.launcher import Launcher
from gpu_profile.nsys.recorder import is_armed
from gpu_profile.progress import Progress

_OF_BOTH = {"with_", "ranks", "annotate", "record", "steps", "whole", "stats"}


def refuse_tool(options: ProfileOptions, launcher: Launcher, annotate: Annotate) -> None:
    """Raise SettingsError for --with torch where it cannot record, and beside a flag of nsys."""
    if options.with_ not in launcher.tools:
        names = name_launchers(lambda other: options.with_ in other.tools)
        what = f"--with {options.with_} is for jobs of --on {names}"
        raise SettingsError(what, f"Leave it out for {launcher.name}")
    if options.with_ != "torch":
        return
    ours = {field.name for field in fields(NsysOptions)} - _OF_BOTH
    for option in options.list_options():
        if option.field in ours and options.value_of(option) != option.default:
            _refuse(f"--{option.name} is nsys'")
    if options.record == "endpoint":
        _refuse("--record endpoint has nsys wait for the server")
    if options.carry:
        _refuse("--carry brings nsys")
    if annotate == "none":
        _refuse("--annotate none leaves nothing that could start torch.profiler")
    if annotate == "ops":
        _refuse("--annotate ops marks operators by nsys")


def tell_armed_cost(job: Job, kinds: Collection[str], launcher: Launcher) -> None:
    """Say what being armed costs before the job starts: only another start changes it."""
    is_armed_by_nsys = is_armed(job) and not job.is_by_torch
    if is_armed_by_nsys and "cuda" in kinds and "torch" in launcher.tools:
        Progress().say(
            "an armed nsys adds 0.4 us to each launch of a kernel, and 2 us after its first"
            " window; for PyTorch `--with torch` adds less"
        )


def _refuse(what: str) -> None:
    raise SettingsError(f"{what}, and --with torch records without nsys", "Leave one of them out")
