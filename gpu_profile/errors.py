"""The errors of this project: one line on what happened, a next step, and an exit code."""

import errno
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from gpu_profile.printable import name_program, printable

T = TypeVar("T")

FULL_DISK = {errno.ENOSPC, errno.EDQUOT}
"""Errors that are raised unchanged: a full disk, a full quota. tasks.py prints the next step."""


class GpuProfileError(Exception):
    """An error for the user: `what` happened, and `hint`, what to do next.

    Any other exception that reaches the user is a bug of this project.
    """

    exit_code = 1

    def __init__(self, what: str, hint: str = "") -> None:
        # Both, because an error of a worker process is pickled, and made again from `args`.
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        """Return one printable line, whatever text of another program the message holds."""
        parts = (part.strip().rstrip(".") for part in (self.what, self.hint) if part.strip())
        text = " ".join(". ".join(parts).split())
        end = "" if text.endswith("?") else "."
        return printable(name_program(text.replace("?. ", "? "))) + end


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return a sentence with the choice most similar to `word`, or ""."""
    import difflib  # imported for errors only, to keep each start fast

    near = difflib.get_close_matches(word, sorted(choices), n=1)
    return f"Did you mean {near[0]}?" if near else ""


class SettingsError(GpuProfileError):
    """A setting, flag or input is invalid."""

    exit_code = 2


class NameTakenError(SettingsError):
    """The engine has a job of this name already, of another REPORT_DIR or of another user."""


def find_row(rows: Mapping[str, T], name: str, what: str) -> T:
    """Return the row of this name. Raises SettingsError with the most similar and all names."""
    if name in rows:
        return rows[name]
    names = f"Use one of {', '.join(rows)}"
    hint = f"{did_you_mean(name, rows)} {names}".strip()
    raise SettingsError(f"no {what} {name!r}", hint)


class ToolError(GpuProfileError):
    """A tool, an engine or a permission is missing."""

    exit_code = 3


def make_missing_error(program: str, error: OSError, hint: str = "") -> ToolError:
    """Return the error of a program that could not be started. `hint`: the next step if missing."""
    if isinstance(error, PermissionError):
        return ToolError(f"{program} may not be run here", "Check its mode and its directory's")
    hint = hint or "Install it, or see `invoke doctor`"
    return ToolError(f"{program} is not installed here", hint)


class EngineAwayError(ToolError):
    """The engine of a job does not answer. The job may run on."""


class BuildError(GpuProfileError):
    """The image was not built."""

    exit_code = 4


class JobError(GpuProfileError):
    """The profiled job failed or did not start."""

    exit_code = 5


class NoNsysError(JobError):
    """The job's image has no nsys of ours. It can be carried there."""


class ReportError(GpuProfileError):
    """A report is missing, unreadable or empty."""

    exit_code = 6


class RegistryError(GpuProfileError):
    """The registry refused a request or could not be reached."""

    exit_code = 7


class GateError(GpuProfileError):
    """A gate failed: a regression, a bandwidth floor, drift from the lock."""

    exit_code = 8


class Interrupted(GpuProfileError):
    """Ctrl-C, SIGTERM or SIGHUP ended the verb. What the run had recorded was fetched before."""

    exit_code = 130


class Stopped(Interrupted):
    """The user ended the job by `stop`, while this verb or no verb waited for it."""


class Refusal(NamedTuple):
    """A part of what a tool prints when it refuses, with the error and the hint that it means.

    Example: `Refusal("port is already allocated", SettingsError, "Set another PORT_MAP")`.
    """

    text: str
    kind: type[GpuProfileError]
    hint: str


def explain_refusal(
    refusals: Iterable[Refusal], message: str, what: str, otherwise: GpuProfileError
) -> GpuProfileError:
    """Return the error of the first refusal whose text is in the message, about `what`.

    Upper and lower case count as one, because tools change it between versions.
    """
    lowered = message.lower()
    for refusal in refusals:
        if refusal.text.lower() in lowered:
            return refusal.kind(what, refusal.hint)
    return otherwise
