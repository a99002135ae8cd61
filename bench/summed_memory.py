"""The most memory that a command and all processes below it hold at a time, shared pages once."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

PAUSE_S = 0.03
# Read by each Python of the command at its start, the workers' server included.
CORES = """
import os
os.cpu_count = lambda: {cores}
os.sched_getaffinity = lambda pid: set(range({cores}))
"""


def measure_sum(argv: Sequence[str], cores: int = 0) -> float:
    """The largest sum of PSS in MB, sampled. `cores`: how many Python says there are; 0 for those
    of this machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = list(argv)
        if cores:
            Path(folder, "sitecustomize.py").write_text(CORES.format(cores=cores))
            words = _add_to_path(words, folder)
        quiet = subprocess.DEVNULL
        command = subprocess.Popen(words, stdout=quiet, stderr=quiet)
        most = 0
        while command.poll() is None:
            most = max(most, sum(map(_read_pss, _list_below(command.pid))))
            time.sleep(PAUSE_S)
    if command.returncode:
        sys.exit(f"exit code {command.returncode}: {' '.join(words[:8])}")
    return most / 1024


def _add_to_path(words: Sequence[str], folder: str) -> list[str]:
    """The words of bench/aims.py's verb() with the folder first in PYTHONPATH."""
    start = "PYTHONPATH="
    return [word.replace(start, f"{start}{folder}{os.pathsep}") for word in words]


def _list_below(pid: int) -> set[int]:
    """The process and all that descend from it."""
    parents, processes = dict(_list_parents()), {pid}
    while more := {child for child, parent in parents.items() if parent in processes} - processes:
        processes |= more
    return processes


def _list_parents() -> Iterator[tuple[int, int]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            # The name in brackets may hold blanks: proc_pid_stat(5).
            yield int(path.parent.name), int(path.read_text().rpartition(") ")[2].split()[1])


def _read_pss(pid: int) -> int:
    """The process's memory in KB, of pages shared with n processes 1/n; 0 if it has ended."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return 0
