"""The server of the workers starts before Invoke and numpy are imported: all load at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_STARTED = """
import re, signal
from multiprocessing import forkserver
from pathlib import Path
from gpu_profile.analysis.multi_report.workers.server import prepare_workers
prepare_workers()
status = Path(f"/proc/{forkserver._forkserver._forkserver_pid}/status").read_text()
blocked = int(re.search("SigBlk:\\s*(\\w+)", status)[1], 16)
print(bool(blocked & 1 << signal.SIGINT - 1), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
_PREPARED = """
import sys
from gpu_profile.cli import start
start._prepare_workers(sys.argv[1:])
forkserver = sys.modules.get("multiprocessing.forkserver")
print(bool(forkserver and forkserver._forkserver._forkserver_pid))
assert not {"numpy", "invoke"} & {*sys.modules}
"""


@pytest.mark.parametrize(
    ("words", "is_started"),
    [
        (("html",), True),
        (("diagnose", "--report", "a.sqlite", "--report=b.sqlite"), True),
        (("html", "--report", "a.sqlite"), False),
        (("html", "--help"), False),
        (("diagnose",), False),
        (("profile", "--", "train.py", "--report", "a", "--report", "b"), False),
    ],
)
def test_the_server_starts_before_invoke_and_numpy(
    words: tuple[str, ...], is_started: bool
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PREPARED, *words], check=True, capture_output=True, text=True
    )
    assert done.stdout == f"{is_started}\n"


def test_words_are_parsed_where_the_server_cannot_start(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 60) / ("b" * 60)
    folder.mkdir(parents=True)
    words = ("diagnos", "--report", "a.sqlite", "--report", "b.sqlite")
    env = {**os.environ, "TMPDIR": str(folder)}  # a socket's path has 107 letters at most
    done = subprocess.run(
        [sys.executable, "-c", _PREPARED, *words], capture_output=True, text=True, env=env
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which signals are blocked")
def test_ctrl_c_interrupts_this_process_and_not_the_server() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STARTED], check=True, capture_output=True, text=True
    )
    assert done.stdout == "True set()\n"
