"""Let a rank's recording outlive the process that mpirun started. Python 3.8, stdlib only.

Where one rank of a job fails or is stopped, mpirun ends the others: Open MPI 5 sends SIGTERM, and
SIGKILL 0.25 s later, whatever odls_base_sigkill_timeout says (PRRTE 3, odls_base_default_fns.c of
https://github.com/openpmix/prrte). nsys needs seconds for its report, and we need some more to
remove environments from it. So the process that mpirun knows only waits for a child that records.
Stop signals reach the child through it alone, as real-time signals: whoever signals both, such as
Slurm or `invoke stop`, would otherwise count twice.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""What Open MPI, MPICH and Intel MPI set."""
_FIRST = 40
"""The real-time signal of number 0. Linux has 34 to 64 of them, and stop signals reach to 15."""
_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>
_PARENTS: list[int] = []
"""The process that mpirun started, in its child."""


def is_mpi_rank(environ: Mapping[str, str]) -> bool:
    """Return whether mpirun may have started this process; False on other systems than Linux."""
    return sys.platform == "linux" and any(name in environ for name in _RANKS)


def continue_in_child(numbers: Sequence[int]) -> int | None:
    """Return None in a child with a session of its own; in this process, its end: Popen's code.

    The signals `numbers` are passed on to the child unless they are ignored here. The end of this
    process ends the program in the child, too: see `handle`.
    """
    sys.stdout.flush()
    parent, before = os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    heard = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    child = os.fork()
    for number in heard:
        signal.signal(number, lambda number, _: _pass_on(child, number))
    if not child:
        os.setsid()
        _PARENTS.append(parent)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _FIRST, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the call
            os.kill(os.getpid(), _FIRST)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return _wait(child) if child else None


def _pass_on(child: int, number: int) -> None:
    """Send the child what came here. In the child, where `child` is 0, it was sent to both.

    The child's main thread must get it: a signal to the process may go to another thread, and the
    main one, which runs Python's handlers, stays in waitpid. glibc has tgkill since 2.30.
    """
    if not child:
        return
    try:
        ctypes.CDLL(None).tgkill(child, child, _FIRST + number)
    except AttributeError:
        os.kill(child, _FIRST + number)


def _wait(child: int) -> int:
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    return _FIRST - number if number > _FIRST else -number


def handle(number: int, handler: Callable[..., None]) -> None:
    """Have a stop signal, or with 0 the end of the process that mpirun started, call `handler`."""
    if _PARENTS:
        signal.signal(_FIRST + number, lambda *_: handler(number, None))
    elif number:
        signal.signal(number, handler)
