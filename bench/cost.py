"""What a command costs: seconds, processor time and peak memory, all its processes included."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# A fresh parent, so that its children's resources are this command's alone. What the command
# leaves running for a moment (a pool's server) becomes this parent's own child and is counted.
MEASURE = """
import ctypes, os, resource, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
limit = int(sys.argv[1]) << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit)) if limit else None
begun = time.perf_counter()
code = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL).returncode
seconds = time.perf_counter() - begun
try:
    while True:
        os.wait()
except ChildProcessError:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


class Failed(Exception):
    """The command gave up, was killed, or took too long."""


@dataclass(frozen=True)
class Cost:
    """`megabytes` are of the largest of its processes."""

    seconds: float
    processor: float
    megabytes: float


def cost(argv: Sequence[str], best: int = 1, limit_mb: int = 0, patience_s: float = 3600) -> Cost:
    """The fastest of `best` runs. `limit_mb` of address space a process; 0 is no limit."""
    runs = (_once(argv, limit_mb, patience_s) for _ in range(best))
    return min(runs, key=lambda cost: cost.seconds)


def _once(argv: Sequence[str], limit_mb: int, patience_s: float) -> Cost:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    words = [sys.executable, "-c", MEASURE, str(limit_mb), *argv]
    try:
        answer = subprocess.run(
            words, check=True, capture_output=True, text=True, env=environment, timeout=patience_s
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"more than {patience_s:.0f} s") from error
    code, seconds, processor, kilobytes = answer.stdout.split()[-4:]
    if code != "0":
        said = answer.stderr.strip().splitlines() or ["nothing said"]
        raise Failed(f"exit code {code}: {said[-1][:200]}")
    return Cost(float(seconds), float(processor), int(kilobytes) / 1024)
