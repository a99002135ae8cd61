"""Compute values in forked copies of this process, which have all that was read so far."""

import ctypes
import gc
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, NoReturn, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

CAN_FORK = sys.platform == "linux"
"""macOS' own libraries may fail in a forked process that starts no other program."""
# Of linux/prctl.h: https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
PR_SET_PDEATHSIG = 1
_NUMBER_BYTES = 4


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
    gc.disable()  # a collection writes to the objects that were read, and so copies their pages
    try:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with os.fdopen(pipe, "wb") as file:
            pickle.dump(function(), file, pickle.HIGHEST_PROTOCOL)
        os._exit(0)
    finally:
        os._exit(1)


def map_in_copies(
    function: Callable[[Item], Result], items: Sequence[Item], processes: int
) -> list[Result]:
    """function(item) of each item, in order, by so many processes: this one and copies of it.

    Each takes the next item from a pipe when it has done one: a read of a pipe is never shared.
    """
    processes = min(processes, len(items))
    if processes < 2 or not CAN_FORK:
        return [function(item) for item in items]
    numbers, filled = os.pipe()
    os.write(filled, b"".join(n.to_bytes(_NUMBER_BYTES, "big") for n in range(len(items))))
    os.close(filled)

    def take_items() -> dict[int, Result]:
        done = {}
        while read := os.read(numbers, _NUMBER_BYTES):
            number = int.from_bytes(read, "big")
            done[number] = function(items[number])
        return done

    copies = [ForkedCopy(take_items) for _ in range(processes - 1)]
    try:
        done = take_items()
    finally:
        others = [copy.result() for copy in copies]
        os.close(numbers)
    for other in others:
        done |= other
    return [done[n] if n in done else function(items[n]) for n in range(len(items))]
