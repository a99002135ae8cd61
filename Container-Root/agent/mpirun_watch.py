"""End an mpirun that waits on for ranks that have all ended. Python 3.8, stdlib only.

Open MPI 5's mpirun can wait for good, for some in 5 to 10 % of all runs
(https://github.com/openpmix/prrte/issues/1839). Only an mpirun whose ranks were all on this machine
is ended, because those of another machine cannot be seen here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from process_tree import KILL, descendants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from process_tree import Process

MPIRUN = ("mpirun", "mpiexec", "orterun", "prterun")
_FIRST_LOOK_S, _LAST_LOOK_S = 1.0, 30.0
_LOOKS = 10  # looks in the time since the start: a rank that lived a tenth of it was seen
_GRACE_S = 10.0  # from SIGTERM to SIGKILL; odls_base_sigkill_timeout is 1 s by default


def is_mpirun(command: Sequence[str]) -> bool:
    return Path(command[0]).name in MPIRUN


class MpirunWatch:
    """Looks at every mpirun below this process, and ends one that has waited for `wait_s` seconds.

    `has_ended_one` is set then: the exit codes of the ranks are unknown.
    """

    def __init__(self, wait_s: float) -> None:
        self.has_ended_one = False
        self._wait_s = wait_s
        self._started = time.monotonic()
        self._idle_since: dict[int, float] = {}
        self._seen: set[int] = set()

    def start(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            since = time.monotonic() - self._started
            pause = min(max(since / _LOOKS, _FIRST_LOOK_S), _LAST_LOOK_S)
            time.sleep(min(pause, max(self._wait_s / 2, 0.05)))
            for pid in self.look(descendants()):
                self.has_ended_one = True
                _end(pid)

    def look(self, processes: Sequence[Process]) -> list[int]:
        """Return the mpiruns whose ranks, all of this machine, ended `wait_s` seconds ago."""
        now = time.monotonic()
        waiting = []
        for process in processes:
            if process.has_ended or process.name not in MPIRUN:
                continue
            living = _living_below(process.pid, processes)
            if any(_is_rank_of_one_machine(pid) for pid in living):
                self._seen.add(process.pid)
            if living or process.pid not in self._seen:
                self._idle_since.pop(process.pid, None)
            elif now - self._idle_since.setdefault(process.pid, now) >= self._wait_s:
                waiting.append(process.pid)
        return waiting


def _living_below(pid: int, processes: Sequence[Process]) -> list[int]:
    below = [pid]
    for parent in below:
        below += [
            process.pid
            for process in processes
            if process.parent == parent and not process.has_ended
        ]
    return below[1:]


def _is_rank_of_one_machine(pid: int) -> bool:
    """Return whether a process is a rank of Open MPI, and all ranks of its job are here."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        values = dict(word.partition(b"=")[::2] for word in words)
        world = values.get(b"OMPI_COMM_WORLD_SIZE")
        return world is not None and world == values.get(b"OMPI_COMM_WORLD_LOCAL_SIZE")
    return False


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + _GRACE_S
        while time.monotonic() < until:
            time.sleep(0.1)
            os.kill(pid, 0)
            if _is_zombie(pid):
                return
        os.kill(pid, KILL)


def _is_zombie(pid: int) -> bool:
    return any(process.pid == pid and process.has_ended for process in descendants())
