"""The server of the workers starts before numpy is imported, so that both are loaded at once."""

import subprocess
import sys

import pytest

_STARTED = """
import re, signal
from multiprocessing import forkserver
from pathlib import Path
from gpu_profile.analysis.multi_report.worker_server import prepare_workers
prepare_workers()
status = Path(f"/proc/{forkserver._forkserver._forkserver_pid}/status").read_text()
blocked = int(re.search("SigBlk:\\s*(\\w+)", status)[1], 16)
print(bool(blocked & 1 << signal.SIGINT - 1), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
_IMPORTED = """
import sys
import gpu_profile.verbs.reading.html
assert "gpu_profile.analysis.multi_report.worker_server" in sys.modules
print("numpy" in sys.modules)
"""


def test_html_can_start_the_server_before_numpy_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED], check=True, capture_output=True, text=True
    )
    assert done.stdout == "False\n"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which signals are blocked")
def test_ctrl_c_interrupts_this_process_and_not_the_server() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STARTED], check=True, capture_output=True, text=True
    )
    assert done.stdout == "True set()\n"
