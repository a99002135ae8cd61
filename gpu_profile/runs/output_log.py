"""Write output.log, a job's complete output, and find its last line."""

import contextlib
import functools
import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from gpu_profile import files, process, program_output, redact
from gpu_profile.command import Command, Result
from gpu_profile.errors import EngineAwayError, GpuProfileError, ReportError
from gpu_profile.launcher import Launcher
from gpu_profile.printable import remove_controls
from gpu_profile.progress import Progress

_TAIL = 1 << 14  # bytes at the log's end that are searched for its last line
_FROM = r"(\[(\d+|pod/\S+)\] )*"
"""The prefix of a line with its rank and pod: `[pod/train-worker-0] [3] `."""
_NSYS = re.compile(
    rf"{_FROM}(Generat(ing|ed)\b|\[\d+/\d+\] \[|\s*/.+\.(nsys-rep|sqlite|qdstrm)$"
    r"|nsys \d+\.\d+\S* from )"
)
"""Lines that nsys prints about the report that it writes."""
_STARTER = re.compile(
    rf"{_FROM}(profile\.py: rank \d+( ended|: nsys wrote no report: --steps )"
    r"|gpu-profile: \S+ ended with \d+; )|srun: "
    r"|unexpected EOF$|[Ee]rror from daemon in stream"
    r"|slurmstepd-(?!\S+ error: pyxis:\s+(\[ERROR\]|curl:|--container-))"
)
"""Lines of profile.py, a pod's script, Slurm or docker, not the job's own. A container that did not
start has no own lines: then the message of pyxis counts as one."""


class OutputLog:
    """The file output.log of a run, which shows no credentials.

    `list_secrets` returns them: it is called when there is output, as it may ask the engine.
    """

    def __init__(self, path: Path, list_secrets: Callable[[], tuple[str, ...]]) -> None:
        self.path = path
        self._list_secrets = list_secrets

    def copy_in_background(
        self, command: Command
    ) -> contextlib.AbstractContextManager[Callable[[float], None]]:
        """Copy a program's output to the file while the body runs (program_output.in_background).

        Removes the file unless it is a regular one: a job can write to its run directory, so it may
        have left a link or a FIFO there.
        """
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(self.path.lstat().st_mode):
                self.path.unlink()
        copy = functools.partial(copy_redacted, secrets=self._list_secrets())
        return program_output.in_background(command, self.path, copy)

    def complete(self, result: Result) -> None:
        """Write the followed output or the job's own log, whichever is longer."""
        followed = _followed(self.path)
        logged = result.stdout + result.stderr if result.returncode == 0 else ""
        if logged.startswith("No resources found"):  # kubectl: the pods never existed
            logged = ""
        texts = (redact.without(text, self._list_secrets()) for text in (followed, logged))
        files.write_atomically(self.path, max(texts, key=len))


def find_secrets(launcher: Launcher, job_id: str, progress: Progress) -> tuple[str, ...]:
    """Return the credentials among the variables of a job that another process submitted.

    Where this user may not read them, one line says so, and the output is shown nonetheless.
    """
    try:
        return redact.secret_values(process.drive(launcher.get_variables(job_id)))
    except EngineAwayError:
        raise
    except GpuProfileError as error:
        progress.say(f"values of --env may stand in the job's output: {error}")
        return ()


def _followed(log: Path) -> str:
    """Return the output followed so far; empty if the job replaced the file by a link or a FIFO."""
    try:
        return files.read_text(log)
    except (FileNotFoundError, ReportError):
        return ""


def copy_redacted(source: IO[bytes], target: IO[bytes], secrets: Sequence[str] = ()) -> None:
    """Copy whole lines as they come, without credentials. A carriage return ends a line too."""
    unwritten = b""
    # in_background closes the pipe 2 s after the program's end
    with contextlib.suppress(OSError, ValueError):
        while chunk := os.read(source.fileno(), 1 << 16):
            unwritten += chunk
            line_end = max(unwritten.rfind(b"\n"), unwritten.rfind(b"\r")) + 1
            # A line without an end is written in pieces of 64 KiB: it must not fill the memory.
            end = line_end or (len(unwritten) >> 16) << 16
            target.write(redact.without(unwritten[:end].decode(errors="replace"), secrets).encode())
            target.flush()
            unwritten = unwritten[end:]
        target.write(redact.without(unwritten.decode(errors="replace"), secrets).encode())


def last_line(log: Path) -> str:
    """Return the last line of the job's own output, otherwise of its starter's, or "".

    It holds no control characters, and a line of such characters alone is none.
    """
    with contextlib.suppress(OSError, ReportError):
        with files.open_regular(log) as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            text = file.read().decode(errors="replace")
        texts = map(remove_controls, re.split(r"[\r\n]+", text))
        lines = [line for line in texts if line.strip() and not _NSYS.match(line)]
        job_lines = [line for line in lines if not _STARTER.match(line)]
        return (job_lines or lines or [""])[-1].strip()
    return ""
