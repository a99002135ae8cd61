"""End the windows that a killed profile.py has left open. Python 3.8, stdlib only.

Without it nsys records to the end of the program, in memory and in its folder, and the marks go on.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import window_files
from nsys_session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_START_S = 1.0
"""A `nsys start` that profile.py called before it was killed takes 0.1 to 0.6 s."""


def end_left_windows(output: Path, environ: Mapping[str, str]) -> None:
    """End the windows of this host's agents that were killed. `output`: their run directory."""
    folder = output / window_files.FOLDER
    for path in window_files.list_killed_agents(folder):
        name = window_files.name_armed(path)
        if name.partition(".")[2] != window_files.name_host():
            continue
        with contextlib.suppress(OSError):
            window_files.tell_marks(folder, name, window_files.SLEEP)
        facts = window_files.read(path)
        if facts.get("session"):
            session = Session(str(facts["nsys"]), 0, environ, name=str(facts["session"]))
            if session.stop():
                time.sleep(_START_S)
                session.stop()
