"""Child processes in sessions of their own, ended in bounded time. Python 3.8, stdlib only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.1
_FORCE_AFTER = 3
_LEFTOVER_S = 5.0
# nsys makes a report of a long recording in more time than any grace; one that hangs does nothing.
_LOOK_S = 5.0
_WORKS = 0.02  # of one processor
LONGEST_S = 3600.0
_NSYS = ("nsys", "Qdstrm")
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
STOPPING = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK")
    if hasattr(signal, name)
)


def say(text: str) -> None:
    print(f"profile.py: {text}", file=sys.stderr, flush=True)


def own_session() -> dict[str, Any]:
    """How to start a child that a terminal's Ctrl-C reaches only through us, and once."""
    if os.name == "nt":
        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    return {"start_new_session": True}


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Process(NamedTuple):
    pid: int
    parent: int
    name: str
    ended: bool
    ticks: int


def descendants() -> list[Process]:
    """Every process below this one, nearest first; none where there is no /proc."""
    found = [Process(os.getpid(), 0, "", False, 0)]
    everything = [
        process for process in map(_process, Path("/proc").glob("[0-9]*/stat")) if process
    ]
    for one in found:
        found += [process for process in everything if process.parent == one.pid]
    return found[1:]


def _process(stat: Path) -> Process | None:
    with contextlib.suppress(OSError, ValueError):
        head, _, tail = stat.read_text(errors="replace").rpartition(")")
        state, parent, *_ = values = tail.split()
        ticks = int(values[11]) + int(values[12])
        name = head.partition("(")[2]
        return Process(int(stat.parent.name), int(parent), name, state in "ZX", ticks)
    return None


def end_descendants(within_s: float) -> None:
    """Terminate what is left below us, and kill what has not ended in time."""
    deadline = time.monotonic() + within_s
    send(signal.SIGTERM, descendants())
    while _living() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    # What dies hands its children to us: look again until none is left.
    for _ in range(20):
        if not _living():
            return
        send(KILL, descendants())
        time.sleep(_POLL_S)


def end_idle() -> None:
    """Kill what is below us once nsys no longer works on its report, an hour from now at most."""
    deadline = time.monotonic() + LONGEST_S
    while _nsys_works() and time.monotonic() < deadline:
        pass
    end_descendants(0)


def _nsys_works() -> bool:
    """Whether nsys, where there is one, uses the processor in the next seconds."""
    before = _nsys_ticks()
    if before is None:
        return False
    time.sleep(_LOOK_S)
    used = abs((_nsys_ticks() or 0) - before)
    return used > _WORKS * _LOOK_S * os.sysconf("SC_CLK_TCK")


def _nsys_ticks() -> int | None:
    found = [p.ticks for p in descendants() if p.name.startswith(_NSYS) and not p.ended]
    return sum(found) if found else None


def _living() -> bool:
    return any(not process.ended for process in descendants())


def send(signum: int, processes: Sequence[Process]) -> None:
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process.pid, signum)


def exit_code(returncode: int) -> int:
    """A shell's code: 128 and the signal for a program that a signal ended."""
    return 128 - returncode if returncode < 0 else returncode


class Stopper:
    """Hands the first signal that would end us to `stop`, and kills what is left after `grace_s`,
    unless that is nsys at work on its report.

    nsys drops its report at a second signal, so further ones are held back, up to the third:
    somebody means it.
    """

    def __init__(self, stop: Callable[[int], None], grace_s: float) -> None:
        self.signum = 0
        self._asked = 0
        self._stop = stop
        self._grace_s = grace_s
        for number in STOPPING:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._on_signal)

    def _on_signal(self, signum: int, _frame: object) -> None:
        self._asked += 1
        if self._asked == 1:
            self.signum = signum
            self.stop(signum)
        elif self._asked < _FORCE_AFTER:
            say("stopping already, so that reports are whole; once more kills")
        else:
            end_descendants(0)

    def stop(self, signum: int) -> None:
        after(self._grace_s, end_idle)
        # A lost terminal or a quit is no different to a job: it ends.
        self._stop(signum if signum == signal.SIGINT else signal.SIGTERM)


def after(seconds: float, call: Callable[..., None], *arguments: object) -> None:
    timer = threading.Timer(seconds, call, arguments)
    timer.daemon = True
    timer.start()


class Child:
    """One program in a session of its own, which ends when we are told to."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], grace_s: float) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._grace_s = grace_s
        adopt_orphans()
        self.stopper = Stopper(self._stop, grace_s)
        self._process = subprocess.Popen(argv, env=env, **own_session())
        if self.stopper.signum:
            self._stop(self.stopper.signum)

    def _stop(self, signum: int) -> None:
        """End the program by `signum`; under nsys the recorded one, by force in half the grace."""
        if self._process is None:
            return
        if os.name == "nt":
            self._process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))
            return
        if not recorded() and self._process.returncode is None and not _finalising():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signum)
        send(signum, recorded())
        after(self._grace_s / 2, lambda: send(KILL, recorded()))

    def wait(self) -> int:
        """The exit code of the program, or of what it left running in its process group.

        nsys ends with its recording when that is a window; its launcher stays until the job
        ends, and then has the job's own exit code.
        """
        assert self._process is not None
        code = _patient_wait(self._process)
        if not self.stopper.signum:
            code = _wait_for_group(self._process.pid) or code
        if self.stopper.signum:
            end_descendants(_LEFTOVER_S)
            return exit_code(code) or 128 + self.stopper.signum
        return exit_code(code)


def recorded() -> list[Process]:
    """The programs that nsys started, by its launcher, for us. It finalises when they end.

    A signal to nsys itself would do too, unless nsys is finalising already: then it gives the
    report up.
    """
    below = descendants()
    own = {process.pid for process in below if process.name.startswith("nsys")}
    return [p for p in below if p.parent in own and not p.name.startswith(_NSYS) and not p.ended]


def _finalising() -> bool:
    """Whether what nsys recorded has ended, and nsys has not."""
    return any(process.ended and process.name == "nsys-launcher" for process in descendants())


def _patient_wait(process: subprocess.Popen[bytes]) -> int:
    """Windows runs no signal handler during a wait without end."""
    while os.name == "nt":
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=1)
    return process.wait()


def _wait_for_group(pid: int) -> int:
    """The first exit code above 0 of orphans that we adopted from this process group."""
    first = 0
    while hasattr(os, "waitpid"):
        try:
            _, status = os.waitpid(-pid, 0)
        except OSError:
            break
        ended = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        first = first or ended
    return first
