"""The environment that marks a PyTorch program, and what the program tells of its steps.

Python 3.8, stdlib only.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_START_UP = Path(__file__).resolve().parent / "annotate"
STEPS_FILE = ".steps.json"
"""The ending of a rank's file of step times: `rank0.host.steps.json` beside its report."""


def make_environment_with_marks(
    environ: Mapping[str, str],
    level: str,
    steps: str,
    file: Path,
    nsys_options: Sequence[str] = (),
    end: str = "",
) -> dict[str, str]:
    """Return the environment of a rank whose steps are marked and timed, or are recorded in part.

    `level`: none, steps, modules or ops. `steps`: "" or the window `20:40`. `file`: where the
    program writes the times of its steps. `end`: the socket of recording_end.py, or "".
    """
    if level in ("", "none"):
        return dict(environ)
    paths = (str(_START_UP), environ.get("PYTHONPATH", ""))
    marks = {
        "GPU_PROFILE_ANNOTATE": level,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "GPU_PROFILE_STEPS_FILE": str(file),
    }
    if end:
        marks["GPU_PROFILE_STEPS_END"] = end
    if nsys_options and _traces_calls(nsys_options):
        marks["GPU_PROFILE_CALLS_TRACED"] = "yes"
    if steps:
        cuda = "--capture-range=cudaProfilerApi" in nsys_options
        marks["GPU_PROFILE_STEPS"] = steps
        marks["GPU_PROFILE_STEPS_START"] = "cuda" if cuda else "nvtx"
    return {**environ, **marks}


def _traces_calls(nsys_options: Sequence[str]) -> bool:
    """Return whether nsys records calls of the C library, as it does without an option."""
    names = [option for option in nsys_options if option.startswith("--trace=")]
    return not names or "osrt" in names[-1]


def describe_steps(file: Path, steps: str) -> str:
    """Return what to say of a window that the program did not reach to its end; otherwise ""."""
    first, _, end = steps.partition(":")
    try:
        step_count = int(json.loads(file.read_text(encoding="utf-8"))["steps"])
    except (OSError, ValueError, KeyError, TypeError):
        step_count = 0
    if step_count == 0:
        return "it made no step of PyTorch that could be counted"
    if step_count >= int(end):
        return ""
    ending = f"it ended after {step_count} steps"
    if step_count <= int(first):
        return ending
    return f"{ending}: steps {first} to {step_count - 1} are recorded"
