"""Read what an nsys answers to `nsys profile --help`."""

from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import ToolError


def ask_command(question: Command) -> Steps[str]:
    """Return the standard output of one command. Raises ToolError if it fails."""
    return read_answer((yield question))


def read_answer(result: Result) -> str:
    """Return the standard output. Raises ToolError if the command failed."""
    if result.returncode:
        hint = "Run `invoke doctor` with the same --on"
        raise ToolError(f"nsys does not list its options: {result.said}", hint)
    return result.stdout
