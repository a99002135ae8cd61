"""A run of CI that is killed leaves nothing: what it started ends, though it called setsid."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.settings.places import ROOT
from tests.further import keep_first

WATCHED = (sys.executable, str(ROOT / "tests/live/watched.py"))
RUN = """
cd "$1"
setsid --fork sh -c "$2"'echo $$ >daemon; while :; do sleep 1000; done'
setsid ./dockerd 1000 & echo $! >engine
echo $$ >run
wait
"""
"""A run with a daemon that has no parent, and an engine that it installed."""
IGNORE = "trap '' TERM;"


def await_true(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


class StandIn:
    """A watched run that has started its daemon and its engine."""

    def __init__(self, directory: Path, daemon: str) -> None:
        shutil.copy(shutil.which("sleep") or "sleep", directory / "dockerd")
        (directory / "finally").write_text("#!/bin/sh\necho removing >&2\necho done >finished\n")
        (directory / "finally").chmod(0o755)
        run = ("sh", "-c", RUN, "sh", str(directory), daemon)
        self.directory = directory
        words = (*WATCHED, "--finally", "./finally", *run)
        self.top = subprocess.Popen(words, cwd=directory, stderr=subprocess.PIPE)
        assert self.top.stderr
        self.top.stderr.close()  # as in `.ci/run |& tee log`, where all are killed
        await_true(lambda: all(map(self.read, ("daemon", "engine", "run"))))
        await_true(lambda: Path(f"/proc/{self.read('engine')}/comm").read_text() == "dockerd\n")

    def read(self, name: str) -> str:
        path = self.directory / name
        return path.read_text().strip() if path.exists() else ""


@pytest.mark.parametrize(
    ("victim", "number", "code", "daemon"),
    keep_first(
        1,
        [
            ("top", signal.SIGKILL, -9, IGNORE),
            ("top", signal.SIGTERM, 143, ""),
            ("top", signal.SIGINT, 130, ""),
            ("run", signal.SIGKILL, 137, ""),
        ],
    ),
)
def test_nothing_is_left_but_the_engine_and_foreign_processes(
    tmp_path: Path, victim: str, number: signal.Signals, code: int, daemon: str
) -> None:
    foreign = subprocess.Popen(("sleep", "1000"), start_new_session=True)
    run = StandIn(tmp_path, daemon)
    engine = int(run.read("engine"))
    try:
        os.kill(run.top.pid if victim == "top" else int(run.read("run")), number)
        assert run.top.wait(60) == code
        await_true(lambda: run.read("finished"))
        await_true(lambda: not is_running(int(run.read("run"))))
        assert not is_running(int(run.read("daemon")))
        assert is_running(engine)
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()
        os.kill(engine, signal.SIGKILL)


SCRIPT = """
setsid --fork sh -c 'echo $$ >"$0"; exec sleep 1000' "$1"
until [ -s "$1" ]; do sleep 0.01; done
read -r line && exit 9
exit 7
"""


def test_the_exit_code_is_the_commands_and_daemons_of_a_whole_run_end(tmp_path: Path) -> None:
    done = subprocess.run(
        (*WATCHED, "sh", "-c", SCRIPT, "sh", str(tmp_path / "daemon")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7
    pid = int((tmp_path / "daemon").read_text())
    assert not is_running(pid)
    assert f", process {pid}\n" in done.stderr


ORPHAN = """
cp "$(command -v sleep)" containerd
setsid --fork sh -c 'echo $$ >daemon; exec ./containerd 1000'
until [ -s daemon ]; do sleep 0.01; done
"""
FINALLY = """#!/bin/sh
pid=$(cat daemon)
kill "$pid"
while kill -0 "$pid"; do sleep 0.01; done
echo done >finished
"""


def test_the_program_at_the_end_may_wait_for_an_orphan_that_it_ends(tmp_path: Path) -> None:
    """It is a zombie until the watcher reaps it, which must not wait for the program alone."""
    (tmp_path / "finally").write_text(FINALLY)
    (tmp_path / "finally").chmod(0o755)
    words = (*WATCHED, "--finally", "./finally", "sh", "-c", ORPHAN)
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "finished").read_text() == "done\n"
