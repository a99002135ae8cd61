"""System calls that nsys' trace of the C library does not see. Python 3.8, stdlib only.

A hundred sleeps a second of ours would be the first rows of the table of such calls.
"""

from __future__ import annotations

import ctypes

# PR_SET_NAME, https://man7.org/linux/man-pages/man2/PR_SET_NAME.2const.html
_SET_NAME = 15


def name_thread(name: str) -> None:
    """Name the calling thread for nsys and `top -H`: 15 letters at most."""
    ctypes.CDLL(None).prctl(_SET_NAME, name.encode(), 0, 0, 0)
