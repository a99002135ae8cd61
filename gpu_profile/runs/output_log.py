"""output.log: what a job said, kept whole and told in one line."""

import contextlib
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from gpu_profile import files, redact
from gpu_profile.command import Result
from gpu_profile.errors import ReportError

_TAIL = 1 << 14
_FROM = r"(\[(\d+|pod/\S+)\] )*"
"""Which rank and which pod said the rest of a line."""
_NSYS = re.compile(
    rf"{_FROM}(Generat(ing|ed)\b|\[\d+/\d+\] \[|\s*/.+\.(nsys-rep|sqlite|qdstrm)$"
    r"|nsys \d+\.\d+\S* from )"
)
"""What nsys says of a report that it writes."""
_STARTER = re.compile(
    rf"{_FROM}(profile\.py: rank \d+ ended|gpu-profile: \S+ ended with \d+; )|srun: "
    r"|slurmstepd-(?!\S+ error: pyxis:\s+(\[ERROR\]|curl:|--container-))"
)
"""What profile.py, a pod's script and Slurm say around a job's own words. Why its container did
not start is what a job has to say that never was."""


def complete_log(log: Path, result: Result, secrets: Sequence[str] = ()) -> None:
    """Keep what was followed, in its order, unless the job's log has more; without credentials."""
    followed = _followed(log)
    logged = result.stdout + result.stderr if result.returncode == 0 else ""
    if logged.startswith("No resources found"):  # kubectl's word for pods that were never there
        logged = ""
    texts = (redact.without(text, secrets) for text in (followed, logged))
    files.write_atomically(log, max(texts, key=len))


def make_way(log: Path) -> None:
    """Remove what is no regular file: a job that sees its run directory may have put it there."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(log.lstat().st_mode):
            log.unlink()


def _followed(log: Path) -> str:
    """Empty where the job has put a link or a FIFO in its place: its own log has the words."""
    try:
        return files.read_text(log)
    except (FileNotFoundError, ReportError):
        return ""


def copy_redacted(source: IO[bytes], target: IO[bytes], secrets: Sequence[str] = ()) -> None:
    """Copy whole lines, a progress bar's included, as they come, without credentials."""
    rest = b""
    with contextlib.suppress(OSError, ValueError):  # closed 2 s after the program's end
        while chunk := os.read(source.fileno(), 1 << 16):
            rest += chunk
            end = max(rest.rfind(b"\n"), rest.rfind(b"\r")) + 1 or (len(rest) >> 16) << 16
            target.write(redact.without(rest[:end].decode(errors="replace"), secrets).encode())
            target.flush()
            rest = rest[end:]
        target.write(redact.without(rest.decode(errors="replace"), secrets).encode())


def last_line(log: Path) -> str:
    """The last line that the job itself said; its starter's where it said none, or empty."""
    with contextlib.suppress(OSError, ReportError):
        with files.open_regular(log) as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            text = file.read().decode(errors="replace")
        lines = [
            line for line in re.split(r"[\r\n]+", text) if line.strip() and not _NSYS.match(line)
        ]
        own = [line for line in lines if not _STARTER.match(line)]
        return (own or lines or [""])[-1].strip()
    return ""
