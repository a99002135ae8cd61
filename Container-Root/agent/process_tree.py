"""List, signal and end the descendants of this process. Python 3.8, stdlib only.

nsys gets time to complete its report before it is killed.
"""

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

_PR_SET_NAME = 15  # numbers of <linux/prctl.h>
_PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.1
# nsys may need longer than any grace to make the report of a long recording. It uses the processor
# meanwhile; an nsys that hangs uses none.
LOOK_S = 5.0
_WORKS = 0.02  # share of one processor
LONGEST_S = 3600.0
_NSYS = ("nsys", "Qdstrm")
_LAUNCHER = "nsys-launcher"
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants (PR_SET_CHILD_SUBREAPER, Linux only).

    See https://man7.org/linux/man-pages/man2/PR_SET_CHILD_SUBREAPER.2const.html.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def name_as_nsys() -> None:
    """Rename this process to nsys-rank (PR_SET_NAME, Linux only).

    See https://man7.org/linux/man-pages/man2/PR_SET_NAME.2const.html.
    end_idle counts processes whose name begins with nsys as nsys at work, so it waits for this one
    too.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, b"nsys-rank", 0, 0, 0)


class Process(NamedTuple):
    """A row of /proc/PID/stat. `ticks` is user and system CPU time in clock ticks."""

    pid: int
    parent: int
    name: str
    has_ended: bool
    ticks: int


def descendants() -> list[Process]:
    """Return every process below this one, nearest first. Empty on systems without /proc."""
    processes = [Process(os.getpid(), 0, "", False, 0)]
    everything = [
        process for process in map(_process, Path("/proc").glob("[0-9]*/stat")) if process
    ]
    for parent in processes:
        processes += [process for process in everything if process.parent == parent.pid]
    return processes[1:]


def _process(stat: Path) -> Process | None:
    with contextlib.suppress(OSError, ValueError):
        head, _, tail = stat.read_text(errors="replace").rpartition(")")
        state, parent, *_ = values = tail.split()
        # utime and stime are fields 14 and 15 of proc_pid_stat(5), and `state` is field 3.
        ticks = int(values[11]) + int(values[12])
        name = head.partition("(")[2]
        return Process(int(stat.parent.name), int(parent), name, state in "ZX", ticks)
    return None


def end_descendants(within_s: float) -> None:
    """Send SIGTERM to all descendants, and SIGKILL to those alive after `within_s` seconds."""
    deadline = time.monotonic() + within_s
    send(signal.SIGTERM, descendants())
    while _living() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    # The children of a killed process become ours (subreaper): list again until none is left.
    # 2 s at most: a process that is in the kernel (state D) does not end by SIGKILL.
    for _ in range(20):
        if not _living():
            return
        send(KILL, descendants())
        time.sleep(POLL_S)


def end_idle() -> None:
    """Kill all descendants once nsys no longer works on its report, after 3600 s at the latest."""
    deadline = time.monotonic() + LONGEST_S
    while is_nsys_working() and time.monotonic() < deadline:
        pass
    end_descendants(0)


def is_nsys_working(look_s: float = LOOK_S) -> bool:
    """Return whether the nsys processes use over 2 % of a processor for the next `look_s` s."""
    before = _nsys_ticks()
    if before is None:
        return False
    time.sleep(look_s)
    # An nsys that ended meanwhile takes its ticks out of the sum: it worked, too.
    used = abs((_nsys_ticks() or 0) - before)
    return used > _WORKS * look_s * os.sysconf("SC_CLK_TCK")


def _nsys_ticks() -> int | None:
    ticks = [p.ticks for p in descendants() if p.name.startswith(_NSYS) and not p.has_ended]
    return sum(ticks) if ticks else None


def _living() -> bool:
    return any(not process.has_ended for process in descendants())


def send(signum: int, processes: Sequence[Process]) -> None:
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process.pid, signum)


def list_profiled() -> list[Process]:
    """Return the programs that nsys profiles: the children of its launcher, which are not nsys.

    To stop a recording, end these programs: nsys then completes its report. A signal to nsys
    itself works only until it has begun to complete the report; after that it drops the report.
    """
    below = descendants()
    launchers = {process.pid for process in below if process.name == _LAUNCHER}
    starters = launchers or {process.pid for process in below if process.name.startswith("nsys")}
    return [p for p in below if p.parent in starters and not p.has_ended and not _is_nsys(p)]


def is_only_nsys_left() -> bool:
    """Return whether nsys runs below this process, and nothing else: no program, no child of it."""
    living = [process for process in descendants() if not process.has_ended]
    return bool(living) and all(_is_nsys(process) for process in living)


def has_started_agent() -> bool:
    """Return whether an nsys that has ended had started its agent (`nsys --start-agent`).

    The agent is a daemon, so it is a child of this process after adopt_orphans, though it ended.
    An nsys that refuses its options starts none (seen with 15 options of nsys 2023.4.4).
    """
    return any(process.name.startswith("nsys") for process in descendants())


def _is_nsys(process: Process) -> bool:
    """Return whether a process is nsys' own, by its name or its program.

    A child that nsys' agent has just forked, to start QdstrmImporter, has the name of a thread
    (`*3AnalysisServi`). A signal to it ends the agent too, and the report is lost.
    """
    with contextlib.suppress(OSError):
        program = os.readlink(f"/proc/{process.pid}/exe")  # noqa: PTH115 - of Python 3.9
        return process.name.startswith(_NSYS) or Path(program).name.startswith(_NSYS)
    return process.name.startswith(_NSYS)


def nsys_awaited(until: float) -> bool:
    """Return whether nsys may still start its program, or is completing its report.

    `until`: the time.monotonic() up to which nsys may start it.
    """
    below = [process for process in descendants() if process.name.startswith("nsys")]
    finalises = any(process.has_ended and process.name == _LAUNCHER for process in below)
    return finalises or (bool(below) and time.monotonic() < until)
