"""How many workers read reports at a time, by the cores and the memory that there are."""

import os
from collections.abc import Sequence
from pathlib import Path

from gpu_profile.analysis.multi_report.work import ReportSource

SMALL_BYTES = 4_000_000
"""Reports of so much together are read in this process: in 0.3 s, in which a pool would start."""
_PACKED = 4  # of a packed report's bytes come four times as many
# Of the report's unpacked bytes: a worker holds 100 MB when it has loaded a report of 198 MB, which
# is a million kernels, and up to 163 MB while it analyses it.
_LOADED, _HELD = 0.40, 0.72
_WORKER_BYTES = 20_000_000
MEMORY_BYTES, MEMORY_OF_REPORT = 1_420_000_000, 178_000_000
"""What all workers together may hold: so much, or so much for each report if that is more. Eight
such reports are loaded and analysed at a time.
"""


def has_worker_for_each(sources: Sequence[ReportSource], spares_memory: bool) -> bool:
    """Whether each of several reports has a worker of its own."""
    return 1 < len(sources) <= choose_workers(sources, spares_memory)


def choose_workers(sources: Sequence[ReportSource], spares_memory: bool) -> int:
    sizes = list(map(_estimate_bytes, sources))
    if sum(sizes) <= SMALL_BYTES:
        return 1
    most = fit_workers(sizes) if spares_memory else len(sizes)
    return min(most, count_cores())


def choose_turns(sources: Sequence[ReportSource], workers: int, beside: int = 0) -> int:
    """How many of the workers may analyse these reports at a time, with so many bytes beside."""
    return fit_turns([*map(_estimate_bytes, sources)], workers, beside)


def fit_workers(sizes: Sequence[int]) -> int:
    """How many workers may hold reports of these unpacked sizes, if half of them analyse."""
    return max(1, int(_choose_memory(sizes) / (_WORKER_BYTES + (_LOADED + _HELD) / 2 * max(sizes))))


def fit_turns(sizes: Sequence[int], workers: int, beside: int = 0) -> int:
    """How many of the workers may analyse at a time, while the others have loaded a report, and so
    many bytes are taken beside them.
    """
    loaded = beside + workers * (_WORKER_BYTES + _LOADED * max(sizes))
    return max(1, int((_choose_memory(sizes) - loaded) / ((_HELD - _LOADED) * max(1, *sizes))))


def _choose_memory(sizes: Sequence[int]) -> int:
    return max(MEMORY_BYTES, MEMORY_OF_REPORT * len(sizes))


def _estimate_bytes(source: ReportSource) -> int:
    """The unpacked size of a report; more than SMALL_BYTES of a folder and of a URL."""
    path = Path(source.place)
    if not path.is_file():
        return SMALL_BYTES + 1
    return path.stat().st_size * (_PACKED if path.suffix == ".gz" else 1)


def count_cores() -> int:
    """The number of cores that this process may use, which can be less than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
