"""Temporary folders for unpacked reports and credentials; those of killed processes are removed.

A process that is killed (out of memory, kill -9) leaves its folder, perhaps with a report that was
to be scrubbed. Each process holds a lock (flock) on its folders, which the kernel releases when
the process ends.
"""

import importlib.util
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "gpu-profile-report-"
MEMORY = "/dev/shm"
"""A file system in memory, on Linux."""
_HAS_LOCKS = importlib.util.find_spec("fcntl") is not None  # Windows has none
YOUNGEST_S = 60.0  # younger folders are not removed: the lock follows the folder within 1 ms


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A folder of this process with mode 0700, removed when it is closed or garbage-collected.

    `memory`: in /dev/shm where there is one, for credentials.
    """

    def __init__(self, *, memory: bool = False) -> None:
        here = memory and os.access(MEMORY, os.W_OK)
        super().__init__(prefix=PREFIX, dir=MEMORY if here else None)
        self._lock = _open_locked(Path(self.name)) if _HAS_LOCKS else -1

    def cleanup(self) -> None:
        super().cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _open_locked(folder: Path) -> int:
    """Return a handle of the folder that holds its lock, where the file system has locks."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with suppress(OSError):  # a file system without locks: sweep() leaves such folders
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def sweep() -> int:
    """Remove the folders of this user's killed processes; return how many. None on Windows."""
    removed = 0
    if not _HAS_LOCKS:
        return removed
    for place in (tempfile.gettempdir(), MEMORY):
        for folder in Path(place).glob(f"{PREFIX}*"):
            with suppress(OSError):
                removed += _sweep_one(folder)
    return removed


def _sweep_one(folder: Path) -> bool:
    import fcntl

    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        return False
    if time.time() - facts.st_mtime < YOUNGEST_S:
        return False
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(handle)
    return True
