"""Write the times of a program's steps into the run directory. Python 3.8, stdlib only."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_profile_marks.steps import Steps

_SAVE_S = 5.0
_MOST_SHARE = 1 / 1000
"""Of the program's time: a file of 100,000 steps takes 100 ms, so it is written each 100 s."""


class TimesFile:
    """The file `rank0.host.steps.json`: the milliseconds of each step, recorded or not, and of the
    host in the phases of each. `unit` is "forward" where these are forwards.

    `path` may be empty: then nothing is written. `window`: the steps that --steps names.
    """

    def __init__(self, path: str, window: tuple[int, ...] = ()) -> None:
        self._path = path
        self._window = window
        self._next = time.monotonic() + _SAVE_S

    def save(
        self, steps: Steps, recorded: tuple[int, int] | None, control: int | None, *, now: bool
    ) -> None:
        """Write the file at most once in 5 s, for a program may be killed; with `now` at once.

        `recorded`: the steps in the report, the first and the one after the last. `control`: the
        first step after the end of nsys' work.
        """
        began = time.monotonic()
        if not self._path or (not now and began < self._next):
            return
        if not self._has_file_of_another(steps.made()):
            self._write(steps, recorded, control)
        ended = time.monotonic()
        self._next = ended + max(_SAVE_S, (ended - began) / _MOST_SHARE)

    def _write(self, steps: Steps, recorded: tuple[int, int] | None, control: int | None) -> None:
        facts = {
            "unit": steps.unit,
            "steps": steps.made(),
            "window": list(self._window),
            "recorded": list(recorded or ()),
            "control": control,
            "ms": _list_ms(steps.times()),
            "phases": {f"{name}_ms": _list_ms(times) for name, times in steps.phases().items()},
            "process": os.getpid(),
        }
        draft = Path(f"{self._path}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        with open(os.open(draft, flags, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(facts, file)
        draft.replace(self._path)

    def _has_file_of_another(self, made: int) -> bool:
        """Return whether another process of this rank wrote of as many steps, or more.

        torchrun and mp.spawn start several under one nsys, and import torch themselves.
        """
        try:
            facts = json.loads(Path(self._path).read_text(encoding="utf-8"))
            return bool(facts["process"] != os.getpid() and facts["steps"] >= made)
        except (OSError, ValueError, KeyError, TypeError):
            return False


def _list_ms(times_s: list[float]) -> list[float]:
    return [round(1e3 * seconds, 3) for seconds in times_s]
