"""End the process at a signal that comes before a verb runs: one line and exit code 130.

A command imports Invoke and its verbs in 0.2 s or more. Meanwhile Python would end with exit code
143 at SIGTERM, and with a traceback at Ctrl-C. Nothing has begun that would have to be undone.
This module imports nothing else, so that handlers are there early.
"""

import os
import signal
from types import FrameType

_LINES = {"SIGINT": "interrupted", "SIGTERM": "interrupted", "SIGHUP": "the terminal is gone"}
_INTERRUPTED = 130


def install_early_handlers() -> None:
    """Replace Python's own handlers by end_early. A signal that is ignored stays ignored."""
    for name in _LINES:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        defaults = (signal.SIG_DFL, signal.default_int_handler)
        if number is not None and signal.getsignal(number) in defaults:
            signal.signal(number, end_early)


def end_early(number: int, _frame: FrameType | None) -> None:
    """Write the line and end at once, also in the middle of an import."""
    try:
        os.write(2, f"error: {_LINES[signal.Signals(number).name]}.\n".encode())
    finally:
        os._exit(_INTERRUPTED)
