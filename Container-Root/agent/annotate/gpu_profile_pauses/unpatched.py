"""What gevent.monkey replaces, as it was when Python started. Python 3.8, stdlib only.

The start-up module imports this file before the program can replace anything.
"""

from __future__ import annotations

import signal
from _thread import get_ident, start_new_thread
from time import perf_counter_ns, sleep, thread_time_ns

try:
    from _thread import get_native_id

    MAIN_THREAD = (get_ident(), get_native_id())
    """Python's and the kernel's number of the thread that runs `__main__`."""
except ImportError:  # a system without numbers of threads
    MAIN_THREAD = (get_ident(), 0)

    def get_native_id() -> int:
        return 0


# Not on macOS.
sigtimedwait = getattr(signal, "sigtimedwait", None)

__all__ = [
    "MAIN_THREAD",
    "get_ident",
    "get_native_id",
    "perf_counter_ns",
    "sigtimedwait",
    "sleep",
    "start_new_thread",
    "thread_time_ns",
]
