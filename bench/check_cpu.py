"""CPU seconds of each part of `check`, one after the other, with mypy's cache empty and warm:

    .venv/bin/python bench/check_cpu.py [--only mypy]

Programs that a test leaves to run, such as the supervisor of a job, are counted too (Linux).
Seconds of CPU depend little on what else the machine does: with 20 processes on 2 CPUs they were
1.5 times as many as on free ones. Of a part that fails the last lines follow; the exit code is 1.
"""

import argparse
import collections
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gpu_profile.verbs.machine.check import (  # noqa: E402
    checks_beside,
    first_checks,
    list_test_commands,
)

SHOWN = 30  # lines of a part that failed
PR_SET_CHILD_SUBREAPER = 36  # of prctl(2): orphans become children of this process


def list_parts(cache: Path) -> Iterator[tuple[str, Sequence[str], dict[str, str]]]:
    """The name, words and variables of each part, the tests last."""
    parts = first_checks() | checks_beside() | list_test_commands((), (), live=False)
    for name, command in parts.items():
        if name == "mypy":
            words = (*command.argv, f"--cache-dir={cache}")
            yield "mypy without a cache", words, {}
            yield "mypy with its cache", words, {}
        else:
            yield name, command.argv, dict(command.env)


def measure_part(
    words: Sequence[str], env: dict[str, str], output: IO[str]
) -> tuple[float, float, int]:
    """Run a part until all that it leaves has ended. Returns CPU and wall seconds, and its code."""
    before, began = sum(os.times()[2:4]), time.monotonic()
    environ = {**os.environ, **env}
    part = subprocess.Popen(words, cwd=ROOT, env=environ, stdout=output, stderr=subprocess.STDOUT)
    code = part.wait()
    wall = time.monotonic() - began
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return sum(os.times()[2:4]) - before, wall, code


def read_end(output: IO[str]) -> str:
    """The last lines that a part wrote: pytest names the tests that failed there."""
    output.seek(0)
    return "".join(collections.deque(output, SHOWN))


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU seconds of each part of `check`.")
    parser.add_argument("--only", default="", help="parts with this word in their name")
    only = parser.parse_args().only
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    total, failed = 0.0, 0
    with tempfile.TemporaryDirectory() as cache:
        for name, words, env in list_parts(Path(cache)):
            if only in name:
                with tempfile.TemporaryFile("w+", errors="replace") as output:
                    cpu, wall, code = measure_part(words, env, output)
                    end = read_end(output) if code else ""
                total, failed = total + cpu, failed + bool(code)
                line = f"{cpu:7.1f} s CPU {wall:7.1f} s wall  {name} (exit code {code})"
                print(line, end, sep="\n" if end else "", flush=True)
    print(f"{total:7.1f} s CPU in all")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
