"""Workers end with the process that started them, also after kill -9."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]

_WORKS = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from gpu_profile.analysis.multi_report import parallel
from gpu_profile.analysis.multi_report.workers import server

def work():
    os.write(1, f"{os.getpid()}\\n".encode())  # at once: print may write the line's end apart
    time.sleep(600)

if __name__ == "__main__":
    context = server.make_worker_context()
    start = dict(mp_context=context, initializer=parallel._start_worker, initargs=(2,))
    with ProcessPoolExecutor(2, **start) as pool:
        [pool.submit(work) for _ in range(2)]
"""


def is_running(pid: int) -> bool:
    """Whether a process runs. One that has ended stays a zombie until its new parent asks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
def test_workers_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "works.py"
    script.write_text(_WORKS)
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.send_signal(signal.SIGKILL)
    assert parent.wait() == -signal.SIGKILL
    until = time.monotonic() + 120
    while any(is_running(pid) for pid in workers):
        assert time.monotonic() < until, "a worker outlives the process that started it"
        time.sleep(0.05)
    parent.stdout.close()
