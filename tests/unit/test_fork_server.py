"""A verb in a child of the fork server is the verb in a new Python."""

import dataclasses
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_profile.cli.table import VERBS, find_verb
from gpu_profile.command import Result
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
WORDS = {
    "init": ("--output=/dev/null/x",),
    "k8s.injector": ("install",),
    "quickstart": ("--set", "NOPE=1"),  # without it, quickstart installs an engine
    "trace-file": ("json:loads",),
}
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


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS if verb.name != "check"])
def test_each_verb_starts_in_a_new_python(verb: str, tmp_path: Path) -> None:
    """Without any program on PATH: it shows its commands, or refuses in one line.

    The fork server has imported all modules, so that it hides an import that a verb lacks.
    """
    (tmp_path / "env").symlink_to(shutil.which("env") or "")
    options = find_verb(verb).options
    flags = ["--dry-run"] if any(option.name == "dry-run" for option in options) else []
    words = (verb, *WORDS.get(verb, ()), *flags)
    env = {"PATH": str(tmp_path), "REPORT_DIR": str(tmp_path)}
    started = start_invoke(*words, directory=tmp_path, **env)
    assert started.returncode in (0, 2, 3), started.stderr
    assert "Traceback" not in started.stderr
    forked = invoke(*words, directory=tmp_path, **env)
    assert hide_time(forked) == hide_time(started)


def hide_time(result: Result) -> Result:
    """The result without the time in the name of a run, such as train-20261124-152153."""
    return dataclasses.replace(result, stdout=re.sub(r"\d{8}-\d{6}", "TIME", result.stdout))


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
