"""What the marks of an armed job and record_window.py tell each other. Python 3.8, stdlib only."""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = "windows"
"""profile_ranks.py makes it beside the file of the steps' times, in a job that is armed."""
NUMBER = struct.Struct("q")


class StepCounter:
    """A mapped file of 8 bytes, `windows/steps-rank0.host-1234`, which holds how many steps began.

    A number there costs 0.2 us. Without the folder there is no file.
    """

    def __init__(self, times_file: str) -> None:
        self._times_file = Path(times_file)
        self._shown: mmap.mmap | None = None
        self._is_wanted = bool(times_file)

    def show(self, begun: int) -> None:
        if self._is_wanted:
            self._is_wanted = False
            self._shown = self._open()
        if self._shown is not None:
            NUMBER.pack_into(self._shown, 0, begun)

    def _open(self) -> mmap.mmap | None:
        path = _name_file(self._times_file, f"steps-{{}}-{os.getpid()}")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(str(path), flags, 0o600)
        except OSError:
            return None
        try:
            os.write(descriptor, NUMBER.pack(0))
            return mmap.mmap(descriptor, NUMBER.size)
        except (OSError, ValueError):  # a full disk
            return None
        finally:
            os.close(descriptor)


def open_wanted(times_file: str) -> Callable[[], bool] | None:
    """Return what tells whether a window is recorded, or will be in two seconds: the first byte of
    `windows/marks-rank0.host`, read in 0.1 us. None in a job that is not armed.
    """
    if not times_file:
        return None
    path = _name_file(Path(times_file), "marks-{}")
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
    return lambda: shown[0] != 0


def _name_file(times_file: Path, name: str) -> Path:
    rank = times_file.name.rpartition(".steps.json")[0]
    return times_file.with_name(FOLDER) / name.format(rank)
