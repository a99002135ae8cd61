"""Run one rank of a command that its own torch.profiler records. Python 3.8, stdlib only.

The marks (annotate/gpu_profile_marks/torch_trace.py) write `rank0.host.pt.trace.json`, one for each
rank that torchrun starts below this process.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from annotated_env import STEPS_FILE, describe_steps, make_environment_with_marks
from rank_processes import Child, say
from record_windows import Windows
from torch_session import TorchSession, Traces, pack
from window_files import name_host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rank_call import Call
    from rank_env import Place

_DETACH = ("TEARDOWN_CUPTI", "1")
"""Has Kineto detach CUPTI after a window. On an H200, 100 launches take 1.02 times as long after
one then, and 1.39 times otherwise."""


def record_with_torch(
    call: Call, here: Place, command: Sequence[str], env: Mapping[str, str]
) -> int:
    """Run the command, pack its traces, and return its exit code."""
    ours = call.options
    output = Path(ours.output).absolute()
    output.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"rank{here.rank}.{name_host()}"
    steps_file = output / f"{name}{STEPS_FILE}"
    is_manual = ours.record == "manual"
    end = "manual" if is_manual else "whole" if ours.whole else ""
    marked = make_environment_with_marks(env, ours.annotate, ours.steps, steps_file, end=end)
    traces = Traces(output, name)
    marked["GPU_PROFILE_TRACE"] = str(traces.first)
    if is_manual:
        marked.setdefault(*_DETACH)
    windows = Windows(TorchSession(output, name), output, name) if is_manual else None
    with traces.made():
        with windows.watched() if windows else contextlib.nullcontext():
            code = Child(command, marked, ours.grace).wait()
        if windows:
            return code
        written = traces.find_all()
        for trace in written:
            pack(trace, output / f"{trace.name}.gz")
    news = describe_steps(steps_file, ours.steps) if ours.steps else ""
    if not written:
        why = f"--steps {ours.steps}: {news}" if news else "see its own message above"
        say(f"rank {here.rank}: torch.profiler wrote no report: {why}")
    elif news:
        say(f"rank {here.rank}: --steps {ours.steps}: {news}")
    return code
