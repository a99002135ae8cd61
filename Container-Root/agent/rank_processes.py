"""Run children in their own sessions and end them in bounded time. Python 3.8, stdlib only."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import mpi_rank
from process_tree import (
    KILL,
    POLL_S,
    adopt_orphans,
    descendants,
    end_descendants,
    end_idle,
    list_profiled,
    nsys_awaited,
    send,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

_FORCE_AFTER = 3  # the stop signal that kills, see Stopper
_LEFTOVER_S = 5.0
STOPPING = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK")
    if hasattr(signal, name)
)


def say(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # an mpirun that has ended reads no more
        print(f"profile.py: {text}", file=sys.stderr, flush=True)


def own_session() -> dict[str, Any]:
    """Return the Popen arguments for a child that does not get the terminal's Ctrl-C.

    Our own signal handler passes it on, exactly once.
    """
    if os.name == "nt":
        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    return {"start_new_session": True}


def exit_code(returncode: int) -> int:
    """Return a shell's exit code: 128 + n for a program that signal n ended."""
    return 128 - returncode if returncode < 0 else returncode


class Stopper:
    """Pass the first stop signal to `stop`, and kill what is left after `grace_s` seconds.

    nsys at work on its report is not killed. nsys drops its report at a second signal, so the
    second is not passed on; the third kills everything.
    """

    def __init__(self, stop: Callable[[int], None], grace_s: float) -> None:
        self.signum = 0
        self._asked = 0
        self._stop = stop
        self._grace_s = grace_s
        for number in STOPPING:
            # nohup has SIGHUP ignored, and the job must outlive its terminal.
            if signal.getsignal(number) != signal.SIG_IGN:
                mpi_rank.handle(number, self._on_signal)
        mpi_rank.handle(0, self._on_lost_rank)

    def _on_signal(self, signum: int, _frame: object) -> None:
        self._asked += 1
        if self._asked == 1:
            self.signum = signum
            self.stop(signum)
        elif self._asked < _FORCE_AFTER:
            say("stopping already, so that reports are whole; once more kills")
        else:
            end_descendants(0)

    def _on_lost_rank(self, _number: int, _frame: object) -> None:
        """End the program as a stop signal does. mpirun has often sent one before its SIGKILL."""
        if not self.signum:
            self._on_signal(signal.SIGTERM, None)

    def stop(self, signum: int) -> None:
        after(self._grace_s, end_idle)
        # A lost terminal (SIGHUP) and SIGQUIT mean the same to a job as SIGTERM: end.
        self._stop(signum if signum == signal.SIGINT else signal.SIGTERM)


def after(seconds: float, call: Callable[..., None], *arguments: object) -> None:
    timer = threading.Timer(seconds, call, arguments)
    timer.daemon = True
    timer.start()


class Child:
    """One program in its own session, which a stop signal to this process ends.

    `profiler`: it is nsys, whose launcher returns the exit code of the program below it.
    `stdout` is a descriptor for its own words. With `ignores_pipes` it goes on where nobody reads
    them: SIGPIPE stays ignored, as Python has it. `before_end` is called before what is left of a
    stopped program is ended.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        grace_s: float,
        *,
        profiler: bool = False,
        stdout: int | None = None,
        ignores_pipes: bool = False,
    ) -> None:
        self.before_end: Callable[[], None] = lambda: None
        self._profiler = profiler
        self._process: subprocess.Popen[bytes] | None = None
        self._grace_s = grace_s
        adopt_orphans()
        self.stopper = Stopper(self._stop, grace_s)
        self._process = subprocess.Popen(
            argv, env=env, stdout=stdout, restore_signals=not ignores_pipes, **own_session()
        )
        # The signal came before there was a program to end.
        if self.stopper.signum:
            self._stop(self.stopper.signum)

    def _stop(self, signum: int) -> None:
        """Start to end the program by `signum`; SIGKILL follows after half the grace.

        Under nsys the signal goes to the program that nsys profiles, so that nsys completes its
        report.
        """
        if self._process is None:
            return
        if os.name == "nt":
            self._process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))
            return
        # In a thread: this is a signal handler, and Child.wait goes on only when it returns.
        after(0, self._end, self._process, signum)
        after(self._grace_s / 2, lambda: send(KILL, list_profiled()))

    def _end(self, process: subprocess.Popen[bytes], signum: int) -> None:
        """Send the signal once to each program that nsys profiles, until nsys has ended.

        nsys may not have started the program yet, and it waits for the program's own children.
        """
        patience = time.monotonic() + self._grace_s / 3
        signalled: set[int] = set()
        seen: set[int] = set()
        while process.returncode is None or not signalled:
            programs = list_profiled()
            # nsys 2023.4 loses its agent where a program ends within some ms of its start.
            fresh = [each for each in programs if each.pid in seen - signalled]
            send(signum, fresh)
            signalled |= {program.pid for program in fresh}
            seen |= {program.pid for program in programs}
            # An nsys that is a script has another name at first (`sh`, `unshare`), and a signal
            # would end it. On a loaded machine it took more than 1 s to become nsys.
            starts = self._profiler and process.returncode is None and time.monotonic() < patience
            if not signalled and not starts and not nsys_awaited(until=patience):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signum)
                return
            time.sleep(POLL_S)

    def wait(self) -> int:
        """Return the exit code of the program, or of processes that it left in its process group.

        With a window nsys ends at the window's end. Its launcher remains until the job ends, and
        then returns the job's exit code.
        """
        assert self._process is not None
        code = _patient_wait(self._process)
        if not self.stopper.signum:
            codes = _wait_for_group(self._process.pid)
            # A signal that ended nsys is no exit code of the program, which ran on.
            code = 0 if self._profiler and code < 0 and codes else code
            code = next(filter(None, codes), code)
        if self.stopper.signum:
            self.before_end()
            end_descendants(_LEFTOVER_S)
            return exit_code(code) or 128 + self.stopper.signum
        return exit_code(code)


def await_orphans(known: Container[int] = ()) -> int:
    """Wait for the adopted children that are not among `known`. Returns their exit code.

    They are what a killed profile.py has left: nsys, which returns the program's code.
    """
    code = 0
    while True:
        children = [process for process in descendants() if process.parent == os.getpid()]
        orphans = [process.pid for process in children if process.pid not in known]
        if not orphans:
            return code
        for pid in orphans:
            with contextlib.suppress(OSError):
                _, status = os.waitpid(pid, 0)
                code = code or exit_code(_read_status(status))


def _read_status(status: int) -> int:
    """Return Popen's returncode for a status of os.waitpid."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _patient_wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for the process, on Windows in steps of 1 s: a longer wait runs no handler there."""
    while os.name == "nt":
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=1)
    return process.wait()


def _wait_for_group(pid: int) -> list[int]:
    """Wait for adopted orphans of this process group. Returns their exit codes as they end."""
    codes = []
    while hasattr(os, "waitpid"):
        try:
            _, status = os.waitpid(-pid, 0)
        except OSError:
            break
        codes.append(_read_status(status))
    return codes
