"""Block stop signals in nsys and unblock them in its program. Python 3.8, stdlib only.

Slurm signals every process of a step: the program, which should end, and nsys, which drops its
report at the second signal. The first signal comes from `invoke stop` or the time limit, the
second from srun after a rank has failed. nsys keeps the signal mask that it is started with.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NUMBERS = [getattr(signal, n) for n in ("SIGHUP", "SIGINT", "SIGTERM") if os.name == "posix"]
_EXPOSE = (
    "import os, signal, sys;"
    f" signal.pthread_sigmask(signal.SIG_UNBLOCK, {[int(n) for n in _NUMBERS]});"
    " os.execv(sys.argv[1], sys.argv[1:])"
)


@contextlib.contextmanager
def blocked(wanted: bool) -> Iterator[None]:
    """Block the signals for programs started in the body. Our own come after the body."""
    if not wanted or not _NUMBERS:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _NUMBERS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def exposed(command: Sequence[str], wanted: bool) -> Sequence[str]:
    """Return the command behind a Python call that unblocks the signals and then executes it."""
    if not wanted or not _NUMBERS:
        return command
    return [sys.executable, "-I", "-S", "-c", _EXPOSE, *command]
