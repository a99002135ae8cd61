"""The memory of a worker: settings of malloc, and turns with what needs most of it."""

import ctypes
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.synchronize import Semaphore

# Of linux/prctl.h, https://man7.org/linux/man-pages/man2/prctl.2.html
PR_SET_THP_DISABLE = 41
# Of malloc.h, https://man7.org/linux/man-pages/man3/mallopt.3.html
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
# glibc's largest threshold (DEFAULT_MMAP_THRESHOLD_MAX of mallopt(3)); a smaller one leaves fewer
# holes.
MMAP_BYTES, MMAP_BYTES_SPARED = 1 << 25, 1 << 23


@dataclass
class WorkerMemory:
    """What this process knows of its turn: all workers load, and so many of them analyse at a time.

    `turns`: None where all may. `is_spared`: what was freed goes back to the kernel.
    """

    turns: Semaphore | None = None
    is_spared: bool = False
    has_turn: bool = False

    def limit(self, turns: Semaphore | None, is_spared: bool) -> None:
        """Let this worker analyse only in its turn."""
        self.turns, self.is_spared = turns, is_spared

    def take_turn(self) -> None:
        """Wait until this worker may analyse; meanwhile it holds only what it has loaded."""
        if self.turns and not self.has_turn:
            return_freed()
            self.has_turn = self.turns.acquire()

    def end_turn(self) -> None:
        """Let another worker analyse, after what this one has freed is returned."""
        if self.turns and self.has_turn:
            return_freed()
            self.turns.release()
            self.has_turn = False

    def spare(self) -> None:
        """Return what was freed, where memory is spared: the most that each worker holds then comes
        at other times than that of others.
        """
        if self.is_spared:
            return_freed()


MEMORY = WorkerMemory()


def set_malloc(is_spared: bool) -> None:
    """Let malloc keep freed memory, and use small pages.

    By default glibc returns large arrays to the kernel, which zeroes their pages again for the
    next array; that took a fifth of the time. numpy asks for huge pages (madvise): a virtual
    machine that reports its free memory gives the host exactly the free blocks of 2 MB, so each
    huge page is fetched from the host again. The first 600 MB took 1.1 s in place of 0.25 s.
    """
    with suppress(OSError, AttributeError):  # not glibc, or Windows
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_THRESHOLD, MMAP_BYTES_SPARED if is_spared else MMAP_BYTES)
        library.mallopt(M_TRIM_THRESHOLD, 1 << 30)
        library.mallopt(M_ARENA_MAX, 1)
        library.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def return_freed() -> None:
    """Return what was freed to the kernel, with glibc; malloc keeps it for the next arrays."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
