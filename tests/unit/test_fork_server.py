"""A verb in a child of the fork server is the verb in a new Python."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_profile.settings.places import ROOT
from tests.forked import run_python, start_python
from tests.invoked import invoke, start_invoke

SHOW = """
import atexit, json, os, signal, sys, threading, time
print(json.dumps({
    "argv": sys.argv, "name": __name__, "path": sys.path, "cwd": os.getcwd(), "zone": time.tzname,
    "env": dict(os.environ), "umask": os.umask(0), "leads": os.getsid(0) == os.getpid(),
    "signals": [str(signal.getsignal(number)) for number in (1, 2, 13, 15)],
    "streams": [[stream.name, stream.mode, stream.encoding, stream.errors, stream.isatty()]
                for stream in (sys.stdin, sys.stdout, sys.stderr)],
    "descriptors": len(os.listdir("/proc/self/fd")), "threads": threading.active_count(),
    "input": sys.stdin.read(),
}))
print("behind", file=sys.stderr)
atexit.register(print, "at exit", file=sys.stderr)
threading.Thread(target=lambda: (time.sleep(0.1), print("thread", file=sys.stderr))).start()
sys.exit(7)
"""
WAIT = """
import os, time
with open("pids", "w") as pids:
    pids.write(f"{os.getppid()} {os.getpid()}")
time.sleep(600)
"""
CALL = """
import sys
from pathlib import Path
from tests.forked import run_python
run_python((sys.argv[1],), Path(sys.argv[2]), {})
"""


def test_a_child_has_what_a_new_python_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_THE_TEST", "a\udcffb")
    (tmp_path / "here").mkdir()
    script = tmp_path / "show.py"
    script.write_text(SHOW)
    words, env = (str(script), "-x", "two words", "\udcff"), {"TZ": "Asia/Tokyo", "MORE": "=\n"}
    before = os.umask(0o027)
    try:
        forked = run_python(words, tmp_path / "here", env)
        started = start_python(words, tmp_path / "here", env)
    finally:
        os.umask(before)
    assert json.loads(forked.stdout) == json.loads(started.stdout)
    assert (forked.returncode, forked.stderr) == (7, "behind\nthread\nat exit\n")
    assert started.stderr == forked.stderr


@pytest.mark.further
def test_a_verb_in_a_child_prints_what_it_does_in_a_new_python(tmp_path: Path) -> None:
    """tests/live/test_each_verb_starts.py has all verbs."""
    for words in (("config", "--set=NOPE=1"), ("config", "--format=json")):
        forked = invoke(*words, directory=tmp_path)
        assert forked == start_invoke(*words, directory=tmp_path)


def test_a_signal_ends_a_child_alone(tmp_path: Path) -> None:
    script = tmp_path / "end.py"
    script.write_text("import os; os.kill(os.getpid(), 9)")
    assert run_python((str(script),), tmp_path, {}).returncode == -signal.SIGKILL
    assert invoke("--list", directory=tmp_path).returncode == 0


def test_variables_for_the_start_of_python_are_read(tmp_path: Path) -> None:
    script = tmp_path / "show.py"
    script.write_text("import sys; print(sys.flags.optimize)")
    assert run_python((str(script),), tmp_path, {"PYTHONOPTIMIZE": "2"}).stdout == "2\n"


def test_a_killed_caller_leaves_no_server_and_no_child(tmp_path: Path) -> None:
    script = tmp_path / "wait.py"
    script.write_text(WAIT)
    os.mkfifo(tmp_path / "pids")
    words = [sys.executable, "-c", CALL, str(script), str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT) as caller:
        pids = (tmp_path / "pids").read_text().split()
        handles = [os.pidfd_open(int(pid)) for pid in pids]
        caller.kill()
    for handle in handles:
        assert select.select([handle], [], [], 60)[0], "it has not ended"
        os.close(handle)
