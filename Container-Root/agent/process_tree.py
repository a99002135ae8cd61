"""The processes below this one: found, counted, ended, nsys with care. Python 3.8, stdlib only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.1
# nsys makes a report of a long recording in more time than any grace; one that hangs does nothing.
_LOOK_S = 5.0
_WORKS = 0.02  # of one processor
LONGEST_S = 3600.0
_NSYS = ("nsys", "Qdstrm")
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def name_as_nsys() -> None:
    """Give this process a name of nsys (Linux): what it does to a report counts as nsys' work."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, b"nsys-rank", 0, 0, 0)


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
        time.sleep(POLL_S)
    # What dies hands its children to us: look again until none is left.
    for _ in range(20):
        if not _living():
            return
        send(KILL, descendants())
        time.sleep(POLL_S)


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


def recorded() -> list[Process]:
    """The programs that nsys started, by its launcher, for us. It finalises when they end.

    A signal to nsys itself would do too, unless nsys is finalising already: then it gives the
    report up.
    """
    below = descendants()
    own = {process.pid for process in below if process.name.startswith("nsys")}
    return [p for p in below if p.parent in own and not p.name.startswith(_NSYS) and not p.ended]


def nsys_awaited(until: float) -> bool:
    """Whether an nsys may yet start its program, or has seen it end and makes its report."""
    below = [process for process in descendants() if process.name.startswith("nsys")]
    finalises = any(process.ended and process.name == "nsys-launcher" for process in below)
    return finalises or (bool(below) and time.monotonic() < until)
