"""Run one rank of a command under Nsight Compute, and print what it measured. Python 3.8, stdlib.

What ncu says is printed as lines that begin with `ncu| `, because output comes home from every
machine: its errors, then the CSV of its details page. The report itself, rank0.host.ncu-rep for
ncu's own window, stays in the output directory.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rank_processes import own_session
from window_files import name_host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MEASURED = 99
"""The exit code of a rank that ncu has measured. It is no success, so that it ends the others."""
_NOT_FOUND = 127
_IMPORT_S, _END_S = 120.0, 20.0
_IN_PLACE = {"NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT": "1"}
"""Without it ncu copies its sections into ~/Documents (2022.3 and newer)."""
_PLACES = (
    "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda*/bin/ncu",
    "/usr/local/cuda*/nsight-compute*/ncu",
    "/usr/local/NVIDIA-Nsight-Compute*/ncu",
)


def find_ncu(environ: Mapping[str, str]) -> str:
    """Return the path of ncu: the one of PATH, or the newest where installers put it; or ""."""
    program = shutil.which("ncu", path=environ.get("PATH", os.defpath))
    if program:
        return program
    paths = [path for pattern in _PLACES for path in glob.glob(pattern)]  # noqa: PTH207 - absolute
    return max(paths, key=lambda path: [int(n) for n in re.findall(r"\d+", path)], default="")


def run_under_ncu(
    command: Sequence[str],
    env: Mapping[str, str],
    options: Sequence[str],
    output: Path,
    rank: int,
    limit_s: float,
) -> int:
    """Run the command under ncu for at most `limit_s`. Returns MEASURED, or its exit code."""
    ncu = find_ncu(env)
    if not ncu:
        print_lines("no ncu: not in PATH, /opt/nvidia or the CUDA toolkit")
        return _NOT_FOUND
    output.mkdir(mode=0o700, parents=True, exist_ok=True)
    report = output / f"rank{rank}.{name_host()}.ncu-rep"
    with tempfile.TemporaryDirectory(prefix="gpu-profile-ncu-") as folder:
        log = Path(folder, "log")
        words = (f"--export={report}", "--force-overwrite", f"--log-file={log}")
        code = _run_for([ncu, *options, *words, *command], env, limit_s)
        with contextlib.suppress(OSError):
            print_lines(*_list_news(log.read_text(errors="replace")))
    if not report.exists():
        return code or 1
    report.chmod(0o600)
    print_lines(*_read_details(ncu, report).splitlines())
    return MEASURED


def _run_for(argv: Sequence[str], env: Mapping[str, str], limit_s: float) -> int:
    """Run a program in a session of its own; after the limit end it: SIGINT, TERM, KILL."""
    process = subprocess.Popen(argv, env={**env, **_IN_PLACE}, **own_session())

    def pass_on(number: int, _frame: object) -> None:
        _signal_group(process.pid, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    ends = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
    until = time.monotonic() + limit_s
    while True:
        try:
            return process.wait(max(until - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            if len(ends) == 3:
                print_lines(f"==LIMIT== the time limit of {limit_s:g} s is over")
            _signal_group(process.pid, ends.pop(0) if len(ends) > 1 else ends[0])
            until = time.monotonic() + _END_S


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _list_news(log: str) -> list[str]:
    """Return the lines of ncu's log that are no progress (==PROF==)."""
    return [line for line in log.splitlines() if line.strip() and "==PROF==" not in line]


def _read_details(ncu: str, report: Path) -> str:
    argv = [ncu, "--import", str(report), "--csv", "--page", "details"]
    try:
        env = {**os.environ, **_IN_PLACE}
        done = subprocess.run(argv, env=env, capture_output=True, timeout=_IMPORT_S, check=False)
    except subprocess.TimeoutExpired:
        return "==ERROR== ncu --import takes too long"
    return (done.stdout + done.stderr).decode(errors="replace")


def print_lines(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"ncu| {line}\n")
    sys.stdout.flush()
