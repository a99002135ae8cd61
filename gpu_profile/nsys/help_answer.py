"""Read what an nsys answers to `nsys profile --help`."""

from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import ToolError

_DOCTOR = "Run `invoke doctor` with the same --on"


def ask_command(question: Command, hint: str = _DOCTOR) -> Steps[str]:
    """Return the standard output of one command. Raises ToolError if it fails."""
    return read_answer((yield question), hint)


def read_answer(result: Result, hint: str = _DOCTOR) -> str:
    """Return the standard output. Raises ToolError if the command failed."""
    if result.returncode:
        raise ToolError(f"asking nsys for its options: {result.last_line}", hint)
    return result.stdout
