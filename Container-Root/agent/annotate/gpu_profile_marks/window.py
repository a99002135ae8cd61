"""Record some steps only: start and stop nsys' recording, and write the steps' times.

Python 3.8, stdlib only.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.ranges import Ranges, make_mark
from gpu_profile_marks.variables import FILE, START, STEPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpu_profile_marks.steps import Steps

_SAVE_S = 5.0
_MOST_TIMES = 2000  # a JSON file of 20 kB


class Window:
    """The steps `first` to `end - 1`, of which `recorded` are in the report."""

    def __init__(self, torch: Any, first: int, end: int, file: str, *, cuda: bool) -> None:  # noqa: ANN401 - torch
        self.first, self.end = first, end
        self.recorded: tuple[int, int] | None = None
        self._open = False
        self._file = file
        self._torch = torch
        self._cuda = cuda
        # Around steps, and so not among the ranges that lie inside one.
        self._domain: Any = Ranges.domain
        self._capture = make_mark("capture")
        self._saved = time.monotonic()

    def turn(self, number: int) -> bool:
        """Start or stop the recording where step `number` begins. Returns whether it did."""
        if self._open and number >= self.end:
            self.stop(number)
            return True
        if not self._open and self.recorded is None and self.first <= number < self.end:
            self._start(number)
            return True
        return False

    def _start(self, number: int) -> None:
        self._open = True
        self.recorded = (number, self.end)
        # What earlier steps launched ends before the recording begins, and belongs to no report.
        if self._uses_cuda():
            self._torch.cuda.synchronize()
        if self._cuda:
            self._torch.cuda.cudart().cudaProfilerStart()
        else:
            self._domain.push(self._capture.address)

    def stop(self, number: int) -> None:
        """End the recording where step `number` begins, or the program ends."""
        if not self._open or self.recorded is None:
            return
        self._open = False
        self.recorded = (self.recorded[0], number)
        if self._uses_cuda():
            self._torch.cuda.synchronize()
        if self._cuda:
            self._torch.cuda.cudart().cudaProfilerStop()
        else:
            self._domain.pop()

    def _uses_cuda(self) -> bool:
        return bool(self._torch.cuda.is_initialized())

    def save(self, steps: Steps, *, now: bool = False) -> None:
        """Write the steps' times at most once in 5 s, as a program may be killed."""
        if not self._file or (not now and time.monotonic() - self._saved < _SAVE_S):
            return
        self._saved = time.monotonic()
        if self._has_file_of_another(steps.made()):
            return
        times = [round(1e3 * seconds, 3) for seconds in steps.times()[:_MOST_TIMES]]
        facts = {
            "steps": steps.made(),
            "window": [self.first, self.end],
            "recorded": list(self.recorded or ()),
            "ms": times,
            "process": os.getpid(),
        }
        draft = Path(f"{self._file}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        with open(os.open(draft, flags, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(facts, file)
        draft.replace(self._file)

    def _has_file_of_another(self, made: int) -> bool:
        """Return whether another process of this rank wrote of as many steps, or more.

        torchrun and mp.spawn start several under one nsys, and import torch themselves.
        """
        try:
            facts = json.loads(Path(self._file).read_text(encoding="utf-8"))
            return bool(facts["process"] != os.getpid() and facts["steps"] >= made)
        except (OSError, ValueError, KeyError, TypeError):
            return False


def make_window(torch: Any, environ: Mapping[str, str]) -> Window | None:  # noqa: ANN401 - torch
    """Return the window of GPU_PROFILE_STEPS, or None without one."""
    first, colon, end = environ.get(STEPS, "").partition(":")
    if not colon:
        return None
    cuda = environ.get(START, "nvtx") == "cuda"
    return Window(torch, int(first), int(end), environ.get(FILE, ""), cuda=cuda)
