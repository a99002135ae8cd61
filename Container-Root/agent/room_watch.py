"""Watch the room of the folder in which nsys records. Python 3.8, stdlib only.

nsys 2023.4.4 cannot record on in a full folder: its library then ends the program by SIGSEGV (seen
with 30 MB), or nsys does not end after its program has.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import threading
import time
from typing import TYPE_CHECKING

from process_tree import LOOK_S, end_descendants, is_nsys_working, is_only_nsys_left

if TYPE_CHECKING:
    from types import TracebackType

LEAST_ROOM = 16 << 20
# A program that ends in a full folder gives the room back: 120 ms was the shortest time without
# room in 30 runs on two cores.
_POLL_S = 0.05
_POLLS_A_LOOK = 10  # a look at all processes costs milliseconds
_FULL = 1 << 20
_WAIT_S = 30.0  # a full folder may get room again while another rank makes its report


class RoomWatch:
    """Samples the free bytes of a folder while the body runs, `least` is the smallest number.

    Where the folder stays full for `wait_s` seconds after the program and its children have ended,
    an nsys that does nothing for `look_s` seconds is ended.
    """

    def __init__(self, folder: str, wait_s: float = _WAIT_S, look_s: float = LOOK_S) -> None:
        self.folder = folder
        self.least = LEAST_ROOM
        self._wait_s = wait_s
        self._look_s = look_s
        self._full_since = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> RoomWatch:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def describe(self) -> str:
        """Return what to say of a folder that was nearly full: "/tmp had 0.2 MB free …", or ""."""
        if self.least >= LEAST_ROOM:
            return ""
        free = f"{self.least / (1 << 20):.1f} MB free while nsys recorded there"
        return f"{self.folder} had {free}: make room, or set TMPDIR to another place"

    def _watch(self) -> None:
        for poll in itertools.count():
            if self._ended.wait(_POLL_S):
                return
            with contextlib.suppress(OSError):
                free = shutil.disk_usage(self.folder).free
                self.least = min(self.least, free)
                if poll % _POLLS_A_LOOK == 0:
                    self.end_nsys_that_waits(free)

    def end_nsys_that_waits(self, free: int) -> None:
        """End nsys if it waits for room: `free` bytes is nearly none, and only nsys is left."""
        if free >= _FULL or not is_only_nsys_left():
            self._full_since = 0.0
            return
        self._full_since = self._full_since or time.monotonic()
        is_overdue = time.monotonic() - self._full_since > self._wait_s
        if is_overdue and not is_nsys_working(self._look_s):
            end_descendants(0)
