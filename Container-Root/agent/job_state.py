"""Read, write and lock job.json, the state of a job's directory. See job.py."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

STATE, LOCK, LOG, STOP, WORK = "job.json", "job.lock", "job.log", "job.stop", "work"
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
"""How a file of a job's directory is opened: a job may have put a link or a FIFO in its place."""
FINISHED = ("succeeded", "failed", "cancelled", "lost")
POLL_S = 0.2
START_S = 30.0
# job.json is filled to this size when it is created: the exit code can be written on a full disk.
_STATE_BYTES = 8192
_LEAST_FREE = 1 << 20  # less free space than 1 MiB counts as a full disk


class RefusedError(Exception):
    """A refusal: one line with what happened and what to do, and the exit code (2, 3 or 5)."""

    def __init__(self, line: str, code: int = 2) -> None:
        super().__init__(line)
        self.code = code


def read(job: Path) -> dict[str, Any]:
    """Return the state that the supervisor wrote last. Waits up to 1 s for a write in progress."""
    for _ in range(50):  # 50 * 0.02 s: a reader may see half of a write
        try:
            state: dict[str, Any] = json.loads((job / STATE).read_text(encoding="utf-8"))
            return state
        except FileNotFoundError:
            raise RefusedError(f"{job} holds no job") from None
        except ValueError:
            time.sleep(0.02)
    raise RefusedError(f"{job / STATE} is damaged. Look at {job / LOG}", 3)


def write(job: Path, state: Mapping[str, Any]) -> None:
    """Overwrite job.json in place, padded to its first size, which needs no free disk space."""
    text = json.dumps(state).encode()
    with os.fdopen(os.open(str(job / STATE), os.O_RDWR | NO_LINK), "r+b") as file:
        file.write(text.ljust(_STATE_BYTES - 1) + b"\n")


def mark_lost(job: Path, reason: str) -> None:
    """Write that the job is `lost`. Only for a job that has no supervisor."""
    write(job, {**read(job), "state": "lost", "reason": reason})


def claim(job: Path, state: Mapping[str, Any]) -> None:
    """Create job.json. Raises RefusedError if another process has created it."""
    try:
        job.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_own(job)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK
        with os.fdopen(os.open(str(job / STATE), flags, 0o600), "wb") as file:
            file.write(b" " * _STATE_BYTES)
        write(job, state)
    except FileExistsError:
        raise RefusedError(f"{job} is being started by somebody else") from None
    except OSError as error:
        raise RefusedError(f"{job} cannot be written: {error.strerror}", 3) from None


def append(path: Path) -> BinaryIO:
    """Open a file of the job's directory to append, and create it with mode 0600 if needed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_LINK
    return os.fdopen(os.open(str(path), flags, 0o600), "a+b")


def require_own(job: Path) -> None:
    """Raise RefusedError if the directory belongs to another user: its job.json is not trusted.

    Nor is another user's link: where all may write, as in /tmp, any of them may have made it. A
    link of this user is the job's own: Slurm's job 24 is a link to its run's directory.
    """
    if not hasattr(os, "getuid"):
        return
    if job.is_symlink() and job.lstat().st_uid != os.getuid():
        raise RefusedError(f"{job} is another user's link. Remove it, or choose another --name")
    if job.exists() and job.stat().st_uid != os.getuid():
        raise RefusedError(f"{job} belongs to another user. `invoke reports` lists your own")


def hold(job: Path) -> BinaryIO | None:
    """Take the job's file lock and return the open file, or None while its supervisor holds it.

    The kernel drops a lock when its process ends. A process id could be in use again.
    """
    file = append(job / LOCK)
    try:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _supervised(job: Path) -> bool:
    held = hold(job)
    if held:
        held.close()
    return held is None


def current(job: Path) -> dict[str, Any]:
    """Return the state now. It is `lost` if the supervisor ended without writing the job's end."""
    state = read(job)
    if state["state"] in FINISHED or _supervised(job):
        return state
    state = read(job)  # the job may have ended between the first read and the lock
    age_s = time.time() - (job / STATE).stat().st_mtime
    # A job that starts has no lock yet: job.py writes job.json before its supervisor runs.
    if state["state"] in FINISHED or (state["state"] == "starting" and age_s < START_S):
        return state
    reason = "its supervisor is gone: the machine restarted, or something killed it"
    return {**state, "state": "lost", "reason": reason}


def last_line(job: Path) -> str:
    """Return the last line of the job's output that is not blank, or ""."""
    try:
        with (job / LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 4096))
            lines = file.read().decode(errors="replace").replace("\r", "\n").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def disk_full(free_bytes: int) -> bool:
    return free_bytes < _LEAST_FREE
