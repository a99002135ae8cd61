"""NVTX marks of time that has just passed. Python 3.8, stdlib only.

The number of a mark (int64Value in a report) is the length of the time in ns and, from LATE_BIT on,
for how many us the time had been over when the mark was made. Its category is the thread that it
tells of: the kernel's number, 0 for the thread that makes the mark. Marks and not ranges, so that
the ranges of steps and modules stay as they are.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.nvtx import number

if TYPE_CHECKING:
    from gpu_profile_marks.nvtx import Attributes

STACK, GARBAGE, COMPILATION = "stack", "garbage collection", "compilation"
"""The first words of the messages. gpu_profile/analysis/host/pauses.py reads them."""
BETWEEN = " | "
"""Stands between the first words and the frames, and between frames."""
LATE_BIT = 40  # lengths are up to 18 minutes, and what is late by up to two hours


def format_frame(function: str, place: str, line: int) -> str:
    """Return `load "data.py" 41`. The quotes end the path for `invoke scrub`."""
    return f'{function} "{place}" {line}'


class PauseMarks:
    """Writes the marks of one process. The interpreter's lock is held from `make` to NVTX's end."""

    def __init__(self, domain: Any) -> None:  # noqa: ANN401 - nvtx.Domain, or what stands for it
        self._domain = domain
        self._known: dict[str, tuple[Attributes, int]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def write(self, message: str, ns: int, thread: int = 0, late_ns: int = 0) -> None:
        """Mark `ns` nanoseconds that ended `late_ns` ago. NVTX gets a message's text once."""
        entry = self._known.get(message)
        if entry is None:
            attributes = self._domain.make(message)
            entry = self._known[message] = (attributes, ctypes.addressof(attributes))
        attributes, address = entry
        number(attributes, ns | late_ns // 1000 << LATE_BIT)
        attributes.category = thread
        self._domain.mark(address)
