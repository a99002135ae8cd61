"""Calls of Container-Root/agent/job.py, which keeps a job in a directory of its machine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_profile.command import Command, Result, make_command
from gpu_profile.errors import GpuProfileError, JobError, SettingsError, ToolError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.nsys.rank_wrapper import local_arguments
from gpu_profile.settings.places import ROOT

CONTAINER_ROOT = ROOT / "Container-Root"
AGENT = CONTAINER_ROOT / "agent"
"""The folder of job.py and its sibling modules. A remote machine gets a copy of all its files."""
SAMPLES = CONTAINER_ROOT / "samples"
"""The sample programs: `/train.py` in an image, copied beside job.py on other machines."""


def list_scripts(folder: Path) -> tuple[str, ...]:
    """Return the sorted paths of a folder's Python files in it: `annotate/…`, `job.py`, …"""
    return tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py")))


STATES: Mapping[str, JobState] = {
    "starting": JobState.PENDING,
    "running": JobState.RUNNING,
    "succeeded": JobState.SUCCEEDED,
    "failed": JobState.FAILED,
    "cancelled": JobState.CANCELLED,
    "lost": JobState.FAILED,
}
_REFUSALS: Mapping[int, type[GpuProfileError]] = {2: SettingsError, 3: ToolError, 5: JobError}


@dataclass(frozen=True, kw_only=True)
class Agent:
    """job.py and its siblings on this machine, and the Python that runs them."""

    python: str
    root: Path = AGENT

    def call(self, script: str, *argv: str, stdin: str = "") -> Command:
        return make_command(self.python, str(self.root / script), *argv, stdin=stdin)

    def text(self, script: str) -> str:
        """Return the source of a script, to be sent to `python3 -` on another machine.

        The script must import no sibling.
        """
        return (self.root / script).read_text(encoding="utf-8")


def render_spec(
    job: Job, plan: NsysPlan, directory: str, *, cwd: str = "", nsys: str = "", env: bool = True
) -> str:
    """Return the JSON that `job.py start` reads from standard input.

    With `env` it holds the values of the job's variables. Without, they come through the process
    environment.
    """
    # --gpus 0 on a machine with GPUs: no container or scheduler hides them from the job.
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if job.resources.gpus_per_node == 0 else {}
    words = {
        "arguments": local_arguments(job, plan, output=directory),
        "cwd": cwd,
        "env": hidden | (dict(job.env) if env else {}),
        "nsys": nsys,
    }
    return json.dumps(words, indent=2) + "\n"


def check_agent_result(result: Result, doing: str) -> Result:
    """Return the result. Raises the error that job.py's exit code means.

    Other exit codes (no Python there) raise ToolError.
    """
    if result.returncode:
        what, kind = f"{doing}: {result.last_line}", _REFUSALS.get(result.returncode)
        if kind:  # job.py's message ends with what to do
            raise kind(what)
        raise ToolError(what, "`invoke doctor` with the same --on looks at that machine")
    return result


def parse_answer(result: Result, doing: str) -> Any:  # noqa: ANN401 - JSON
    """Return the JSON value in the last line of job.py's output.

    Raises ToolError for other output.
    """
    # The last line only: what a log-in shell of that machine prints comes before it.
    lines = check_agent_result(result, doing).stdout.strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError) as error:
        last_line = lines[-1][:200] if lines else "nothing"
        raise ToolError(
            f"{doing}: the answer was {last_line!r}", "Is it Python 3.8 or newer?"
        ) from error


def parse_facts(result: Result, doing: str) -> Mapping[str, Any]:
    """Return the facts that the agent prints as JSON. Raises ToolError for another answer."""
    document: Mapping[str, Any] = parse_answer(result, doing)
    return document


def parse_status(result: Result) -> JobStatus:
    """Return the job's status of the agent's answer; UNKNOWN for a state of a newer agent."""
    state = parse_answer(result, "asking for the job")
    return JobStatus(
        state=STATES.get(state["state"], JobState.UNKNOWN),
        reason=state.get("reason", ""),
        exit_code=state.get("exit_code"),
    )
