"""Run one rank of a command that its own torch.profiler records. Python 3.8, stdlib only.

The marks (annotate/gpu_profile_marks/torch_trace.py) write `rank0.host.pt.trace.json`, one for each
rank that torchrun starts below this process.
"""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from annotated_env import STEPS_FILE, describe_steps, make_environment_with_marks
from rank_processes import Child, say
from window_files import name_host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rank_call import Call
    from rank_env import Place

TRACE = ".pt.trace.json"
_QUICK = 1
"""zlib's level: 100 MB of a trace take 1 s and become 8 MB; at level 9 they take 4 s."""


def record_with_torch(
    call: Call, here: Place, command: Sequence[str], env: Mapping[str, str]
) -> int:
    """Run the command, pack its traces, and return its exit code."""
    ours = call.options
    output = Path(ours.output).absolute()
    output.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"rank{here.rank}.{name_host()}"
    steps_file = output / f"{name}{STEPS_FILE}"
    marked = make_environment_with_marks(
        env, ours.annotate, ours.steps, steps_file, end="whole" if ours.whole else ""
    )
    marked["GPU_PROFILE_TRACE"] = str(output / f"{name}{TRACE}")
    code = Child(command, marked, ours.grace).wait()
    ranks = f"rank{here.rank}" if here.world_size > 1 else "rank*"
    traces = sorted(output.glob(f"{ranks}.{name_host()}{TRACE}"))
    for trace in traces:
        pack(trace)
    news = describe_steps(steps_file, ours.steps) if ours.steps else ""
    if not traces:
        why = f"--steps {ours.steps}: {news}" if news else "see its own message above"
        say(f"rank {here.rank}: torch.profiler wrote no report: {why}")
    elif news:
        say(f"rank {here.rank}: --steps {ours.steps}: {news}")
    return code


def pack(trace: Path) -> None:
    """Replace a trace by its .gz: a twelfth of its bytes."""
    packed = trace.with_name(f"{trace.name}.gz")
    draft = trace.with_name(f".{packed.name}.{os.getpid()}")
    with trace.open("rb") as source, draft.open("xb") as file:
        draft.chmod(0o600)
        # Without a name and a time in its header: the same trace gives the same bytes.
        with gzip.GzipFile("", "wb", _QUICK, file, 0) as target:
            shutil.copyfileobj(source, target, 1 << 20)
    draft.replace(packed)
    trace.unlink()
