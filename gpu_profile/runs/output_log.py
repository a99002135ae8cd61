"""Write output.log, a job's complete output, and find its last line."""

import contextlib
import functools
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from gpu_profile import files, process, program_output, redact
from gpu_profile.command import Command
from gpu_profile.errors import EngineAwayError, GpuProfileError, ReportError, ToolError
from gpu_profile.launcher import Launcher
from gpu_profile.printable import remove_controls
from gpu_profile.progress import Progress

_PIECE = 1 << 16  # bytes that are read at once
_KEY_BEGINS, _KEY_ENDS, _LONGEST_KEY = b"-----BEGIN ", b"-----END ", 1 << 14
_TAIL = 1 << 14  # bytes at the log's end that are searched for its last line
_FROM = r"(\[(\d+|pod/\S+)\] )*"
"""The prefix of a line with its rank and pod: `[pod/train-worker-0] [3] `."""
_NSYS = re.compile(
    rf"{_FROM}(Collecting data\.\.\.$|Generat(ing|ed)\b|\[\d+/\d+\] \["
    r"|Processing \d+ events: \["
    r"|\s*/.+\.(nsys-rep|sqlite|qdstrm)$"
    r"|nsys \d+\.\d+\S* from )"
)
"""Lines that nsys prints about the report that it writes."""
_STARTER = re.compile(
    rf"{_FROM}(profile\.py: rank \d+( ended|: the recording ended"
    r"|: nsys wrote no report: --steps )"
    r"|gpu-profile: \S+ ended with \d+; |gpu-profile: (\S+: )?no rank was seen\b)|srun: "
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

        The program prints the output from its beginning, also for the second process that follows
        a run. What a killed process has copied is put aside, so that no line is there twice.
        """
        self._put_aside()
        copy = functools.partial(_copy_while_room, secrets=self._list_secrets())
        return program_output.in_background(command, self.path, copy)

    def complete(self, command: Command) -> None:
        """Write the followed output or the job's own log, whichever is longer.

        `command` prints the job's own log. Either may be larger than the memory.
        """
        secrets = self._list_secrets()
        with files.open_draft(self.path) as draft:
            has_log = _copy_log(command, draft, secrets)
            followed = max(self.path, self._earlier, key=_measure)
            if not has_log or draft.tell() <= _measure(followed):
                draft.seek(0)
                draft.truncate()
                draft.writelines(_redact_pieces(_read_regular(followed), secrets))
        self._earlier.unlink(missing_ok=True)

    @property
    def _earlier(self) -> Path:
        """The file of what a killed process has copied."""
        return self.path.with_name(f".{self.path.name}.earlier")

    def _put_aside(self) -> None:
        """Keep the longer of the file and of what was put aside before.

        A job can write to its run directory, so it may have left a link or a FIFO there. Such a
        file is removed.
        """
        if _measure(self.path) > _measure(self._earlier):
            self.path.replace(self._earlier)
        self.path.unlink(missing_ok=True)


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


def copy_redacted(source: IO[bytes], target: IO[bytes], secrets: Sequence[str] = ()) -> None:
    """Copy whole lines as they come, without credentials. A carriage return ends a line too."""
    for piece in _redact_pieces(_read_pieces(source), secrets):
        target.write(piece)
        target.flush()


def _copy_while_room(source: IO[bytes], target: IO[bytes], secrets: Sequence[str]) -> None:
    """Copy until the disk is full, and read on: a program whose output nobody reads does not end.

    The run's end, which writes there too, says that the disk is full.
    """
    with contextlib.suppress(OSError, ValueError):  # ValueError: the target is closed
        copy_redacted(source, target, secrets)
    for _ in _read_pieces(source):
        pass


def _copy_log(command: Command, target: IO[bytes], secrets: Sequence[str]) -> bool:
    """Write the job's own log. Returns False if the engine does not have it or does not answer."""
    pieces = _redact_pieces(program_output.read_output(command), secrets)
    try:
        first = next(pieces, b"")
        if first.startswith(b"No resources found"):  # kubectl: the pods never existed
            return False
        target.write(first)
        target.writelines(pieces)
    except ToolError:
        return False
    return True


def _measure(path: Path) -> int:
    """Return the bytes of a file; 0 for none, and for a link or a FIFO that the job left."""
    with contextlib.suppress(FileNotFoundError):
        facts = path.lstat()
        return facts.st_size if stat.S_ISREG(facts.st_mode) else 0
    return 0


def _read_regular(path: Path) -> Iterator[bytes]:
    absent = contextlib.suppress(FileNotFoundError, ReportError)  # ReportError: of a link
    with absent, files.open_regular(path) as file:
        yield from _read_pieces(file)


def _read_pieces(source: IO[bytes]) -> Iterator[bytes]:
    """Yield what comes, up to the source's end or until it is closed."""
    # in_background closes the pipe 2 s after the program's end
    with contextlib.suppress(OSError, ValueError):
        while piece := os.read(source.fileno(), _PIECE):
            yield piece


def _redact_pieces(pieces: Iterable[bytes], secrets: Sequence[str]) -> Iterator[bytes]:
    """Yield the text in pieces of whole lines, without credentials; never an empty piece."""
    unwritten = b""
    for piece in pieces:
        unwritten += piece
        end = _find_end(unwritten)
        if end:
            yield redact.without(unwritten[:end].decode(errors="replace"), secrets).encode()
            unwritten = unwritten[end:]
    if unwritten:
        yield redact.without(unwritten.decode(errors="replace"), secrets).encode()


def _find_end(text: bytes) -> int:
    """Return how much of the text is whole lines, without a private key that has not ended.

    A line without an end is taken in pieces of 64 KiB: it must not fill the memory.
    """
    end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1 or len(text) // _PIECE * _PIECE
    key = text.rfind(_KEY_BEGINS, 0, end)
    is_cut = key >= 0 and text.find(_KEY_ENDS, key, end) < 0 and len(text) - key < _LONGEST_KEY
    return key if is_cut else end


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
