"""Workers take turns with what needs most memory: all of them load, and some of them analyse."""

import ctypes
from contextlib import suppress
from multiprocessing.synchronize import Semaphore

# Of linux/prctl.h, https://man7.org/linux/man-pages/man2/prctl.2.html
PR_SET_THP_DISABLE = 41
# Of malloc.h, https://man7.org/linux/man-pages/man3/mallopt.3.html
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
# glibc's largest threshold (DEFAULT_MMAP_THRESHOLD_MAX of mallopt(3)); a smaller one leaves fewer
# holes.
MOST_KEPT, MOST_KEPT_SPARING = 1 << 25, 1 << 23
_turns: Semaphore | None = None
_has_turn = _spares = False


def keep_memory(spares_memory: bool) -> None:
    """Let malloc keep freed memory, and use small pages.

    By default glibc returns large arrays to the kernel, which zeroes their pages again for the
    next array; that took a fifth of the time. numpy asks for huge pages (madvise): a virtual
    machine that reports its free memory gives the host exactly the free blocks of 2 MB, so each
    huge page is fetched from the host again. The first 600 MB took 1.1 s in place of 0.25 s.
    """
    with suppress(OSError, AttributeError):  # not glibc, or Windows
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, MOST_KEPT_SPARING if spares_memory else MOST_KEPT)
        library.mallopt(M_TRIM_THRESHOLD, 1 << 30)
        library.mallopt(M_ARENA_MAX, 1)
        library.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def limit_turns(turns: Semaphore | None, spares_memory: bool) -> None:
    """Let this worker analyse only in its turn; `spares_memory`: and return what it frees."""
    global _turns, _spares
    _turns, _spares = turns, spares_memory


def take_turn() -> None:
    """Wait until this worker may analyse; meanwhile it holds only what it has loaded."""
    global _has_turn
    if _turns and not _has_turn:
        return_memory()
        _has_turn = _turns.acquire()


def spare_memory() -> None:
    """Return what was freed, where workers spare memory: the most that each holds then comes at
    other times than that of others.
    """
    if _spares:
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
