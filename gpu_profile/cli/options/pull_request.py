"""The flags of ci."""

from dataclasses import dataclass

from gpu_profile.cli.options.shared import (
    DryRunOptions,
    OutputOptions,
    ProgramOptions,
    ShapeOptions,
    WhereOptions,
)
from gpu_profile.cli.verb import make_flag
from gpu_profile.job import PRESETS


@dataclass(frozen=True, kw_only=True)
class CiOptions(OutputOptions, DryRunOptions, WhereOptions, ShapeOptions, ProgramOptions):
    base: str = make_flag(
        "", "branch, tag or commit to compare with, in a worktree of its own", value="REF"
    )
    base_dir: str = make_flag("", "directory of the base, which you made", kind="path", value="DIR")
    base_image: str = make_flag("", "image of the base, where the code is in it", kind="address")
    pairs: int = make_flag(6, "how many times the base and the change run, in turns", kind="count")
    fail_over: str = make_flag("5%", "more wall time a step fails", kind="percent")
    fail_over_gpu: str = make_flag("1%", "more GPU time a step fails", kind="percent")
    require_decision: bool = make_flag(
        False, "undecided fails too (exit code 8): too few steps or pairs for a verdict"
    )
    preset: str = make_flag("light", "light, comm, serve or full", choices=PRESETS)
    annotate: str = make_flag(
        "", "marks in a PyTorch program: none, steps, modules or ops", "ANNOTATE"
    )
    steps: str = make_flag("", "record steps 20 to 39 of a PyTorch program: 20:40")
    result: str = make_flag(
        "", "JSON of an earlier call, to write in another format: nothing runs", kind="path"
    )
    format: str = make_flag(
        "text",
        "text, json, markdown or junit",
        choices=("text", "json", "markdown", "junit"),
    )
