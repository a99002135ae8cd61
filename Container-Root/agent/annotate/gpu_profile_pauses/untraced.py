"""System calls that nsys' trace of the C library does not see. Python 3.8, stdlib only.

A hundred sleeps a second of ours would be the first rows of the table of such calls.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import TYPE_CHECKING

from gpu_profile_marks.variables import CALLS_TRACED

from gpu_profile_pauses.unpatched import sigtimedwait, sleep

if TYPE_CHECKING:
    from collections.abc import Callable

# asm/unistd_64.h of x86, asm-generic/unistd.h of arm64
_NANOSLEEP = {"x86_64": 35, "aarch64": 101}
# PR_SET_NAME, https://man7.org/linux/man-pages/man2/PR_SET_NAME.2const.html
_SET_NAME = 15


class _Span(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("ns", ctypes.c_long))


def make_wait() -> Callable[[float], object]:
    """Return a function that waits for so many seconds without Python's lock.

    The waiting thread blocks signals, so that none ends a wait. ctypes takes 10 us longer: its code
    is in no cache of a core that slept.
    """
    if CALLS_TRACED not in os.environ:
        return sleep if sigtimedwait is None else functools.partial(sigtimedwait, ())
    number = _NANOSLEEP.get(os.uname().machine, 0)
    if not number:
        return sleep
    call = ctypes.CDLL(None).syscall
    span = _Span()
    words = (ctypes.c_long(number), ctypes.byref(span), None)

    def wait(seconds: float) -> None:
        span.ns = int(seconds * 1e9)  # below a second
        call(*words)

    return wait


def name_thread(name: str) -> None:
    """Name the calling thread for nsys and `top -H`: 15 letters at most."""
    ctypes.CDLL(None).prctl(_SET_NAME, name.encode(), 0, 0, 0)
