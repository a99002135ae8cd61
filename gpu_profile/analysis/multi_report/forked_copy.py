"""Compute a value in a forked copy of this process, which has all that was read so far."""

import ctypes
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, NoReturn, TypeVar

Result = TypeVar("Result")

CAN_FORK = sys.platform == "linux"
"""macOS' own libraries may fail in a forked process that starts no other program."""
# Of linux/prctl.h: https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
PR_SET_PDEATHSIG = 1


class ForkedCopy(Generic[Result]):
    """A copy that computes `function()` from now on; result() waits for it.

    The function must not need a lock that another thread may hold. The value is pickled.
    """

    def __init__(self, function: Callable[[], Result]) -> None:
        self._function = function
        ours, theirs = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns where there are other threads. Ours wait for workers to end.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = os.fork()
        if not self._process:
            _compute(function, theirs)
        os.close(theirs)
        self._pipe = os.fdopen(ours, "rb")

    def result(self) -> Result:
        """The value. Where the copy failed or was killed, this process computes it, or raises."""
        with self._pipe:
            written = self._pipe.read()
        _, status = os.waitpid(self._process, 0)
        if status:
            return self._function()
        value: Result = pickle.loads(written)
        return value


def _compute(function: Callable[[], object], pipe: int) -> NoReturn:
    """Write the value to the pipe and end this process; it ends with the one that forked it too."""
    try:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with os.fdopen(pipe, "wb") as file:
            pickle.dump(function(), file, pickle.HIGHEST_PROTOCOL)
        os._exit(0)
    finally:
        os._exit(1)
