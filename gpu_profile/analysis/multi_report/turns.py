"""Workers take turns with what needs most memory: all of them load, and some of them analyse."""

import ctypes
from contextlib import suppress
from multiprocessing.synchronize import Semaphore

_turns: Semaphore | None = None
_has_turn = False


def limit_turns(turns: Semaphore | None) -> None:
    """Let this worker analyse only in its turn."""
    global _turns
    _turns = turns


def take_turn() -> None:
    """Wait until this worker may analyse; meanwhile it holds only what it has loaded."""
    global _has_turn
    if _turns and not _has_turn:
        return_memory()
        _has_turn = _turns.acquire()


def spare_memory() -> None:
    """Return what loading has freed, for what needs no turn, where workers take turns."""
    if _turns:
        return_memory()


def end_turn() -> None:
    """Let another worker analyse, after what this one has freed is returned."""
    global _has_turn
    if _turns and _has_turn:
        return_memory()
        _turns.release()
        _has_turn = False


def return_memory() -> None:
    """Return what was freed to the kernel, with glibc; malloc keeps it for the next arrays."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
