"""What the marks of an armed job and record_window.py tell each other. Python 3.8, stdlib only."""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = "windows"
"""profile_ranks.py makes it beside the file of the steps' times, in a job that is armed."""
SHOWN = struct.Struct("qq")
WAIT, TRACE = 2, 3
"""The bytes by which record_windows.py asks a program to wait, as its window has ended, and to
record itself."""
_RUNS, _WAITS, _TRACES = 0, 1, 2
_LONGEST_S, _POLL_S = 10.0, 0.001


class StepCounter:
    """A mapped file of 16 bytes, `windows/steps-rank0.host-1234`: how many steps began, and 1 while
    the program waits, 2 while it records itself.

    A number there costs 0.2 us. Without the folder there is no file.
    """

    def __init__(self, times_file: str) -> None:
        self._times_file = Path(times_file)
        self._shown: mmap.mmap | None = None
        self._read_asked: Callable[[], int] = lambda: 0
        self._has_waited = False
        self._is_wanted = bool(times_file)
        self._begun, self._does = 0, _RUNS

    def show(self, begun: int) -> None:
        self._begun = begun
        if self._is_wanted:
            self._is_wanted = False
            self._shown = self._open()
            self._read_asked = open_asked(self._times_file) or self._read_asked
        self._show(self._does)

    def _show(self, does: int) -> None:
        self._does = does
        if self._shown is not None:
            SHOWN.pack_into(self._shown, 0, self._begun, does)

    def tell_tracing(self, traces: bool) -> None:
        self._show(_TRACES if traces else _RUNS)

    def is_to_trace(self) -> bool:
        """Return whether the program is asked to record itself."""
        return self._read_asked() == TRACE

    def is_to_wait(self) -> bool:
        """Return whether the program is asked to wait, and has not yet."""
        is_asked = self._read_asked() == WAIT
        self._has_waited = self._has_waited and is_asked
        return is_asked and not self._has_waited

    def wait(self) -> None:
        """Wait until nsys has all of the window, 10 s at most: its agent may have been killed."""
        self._has_waited = True
        self._show(_WAITS)
        deadline = time.monotonic() + _LONGEST_S
        while self._read_asked() == WAIT and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self._show(_RUNS)

    def _open(self) -> mmap.mmap | None:
        path = _name_file(self._times_file, f"steps-{{}}-{os.getpid()}")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(str(path), flags, 0o600)
        except OSError:
            return None
        try:
            os.write(descriptor, SHOWN.pack(0, 0))
            return mmap.mmap(descriptor, SHOWN.size)
        except (OSError, ValueError):  # a full disk
            return None
        finally:
            os.close(descriptor)


def open_wanted(times_file: str) -> Callable[[], bool] | None:
    """Return what tells whether a window is recorded, or will be in two seconds. None in a job that
    is not armed.
    """
    read_asked = open_asked(Path(times_file)) if times_file else None
    return None if read_asked is None else lambda: read_asked() != 0


def open_asked(times_file: Path) -> Callable[[], int] | None:
    """Return what reads the byte of `windows/marks-rank0.host`, in 0.1 us; None without a file."""
    path = _name_file(times_file, "marks-{}")
    try:
        descriptor = os.open(str(path), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    try:
        shown = mmap.mmap(descriptor, 1, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)
    return lambda: shown[0]


def _name_file(times_file: Path, name: str) -> Path:
    rank = times_file.name.rpartition(".steps.json")[0]
    return times_file.with_name(FOLDER) / name.format(rank)
