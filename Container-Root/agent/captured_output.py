"""Tell whether a shell reads what this process prints, as in `$(srun hostname)`.

Python 3.8, stdlib only.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_SHELLS = {"bash", "dash", "sh", "zsh", "ksh", "ksh93", "mksh", "busybox", "fish", "tcsh"}
# Of the flags of https://man7.org/linux/man-pages/man2/open.2.html: O_RDONLY is 0
_ACCESS = 0o3


def is_captured() -> bool:
    """Return whether stdout is a pipe that a shell above this process reads.

    `srun … | tee log` is none: tee is beside it. Neither is a Python that passes the output on.
    """
    status = os.fstat(1)
    if not stat.S_ISFIFO(status.st_mode):
        return False
    pid = os.getppid()
    while pid > 1:
        if _reads(pid, f"pipe:[{status.st_ino}]"):
            return True
        pid = _find_parent(pid)
    return False


def _reads(pid: int, pipe: str) -> bool:
    folder = Path(f"/proc/{pid}")
    try:
        # Not /proc/PID/comm: for a script that is executed it holds the script's name.
        if Path(os.readlink(folder / "exe")).name not in _SHELLS:  # noqa: PTH115 - 3.8
            return False
        open_files = (folder / "fd").iterdir()
        numbers = [fd.name for fd in open_files if os.readlink(fd) == pipe]  # noqa: PTH115 - 3.8
        texts = [(folder / "fdinfo" / number).read_text() for number in numbers]
    except OSError:  # it ended, or is another user's
        return False
    return any(_read_flags(text) & _ACCESS == os.O_RDONLY for text in texts)


def _read_flags(text: str) -> int:
    """Return the flags of an entry of /proc/PID/fdinfo: octal, after `flags:`."""
    words = text.split()
    return int(words[words.index("flags:") + 1], 8)


def _find_parent(pid: int) -> int:
    try:
        facts = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    # The name before the last bracket may hold spaces and brackets itself: proc_pid_stat(5).
    return int(facts.rpartition(")")[2].split()[1])
