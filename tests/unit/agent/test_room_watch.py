"""An nsys that waits for room in a full folder is ended; what else runs below it is not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.agent.wrapper import PROFILE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
WAITS = "echo ready; read -r _"
"""A shell script that waits for ever, as its standard input stays open."""
SLEEPS = "until grep -qx sleep /proc/$!/comm; do :; done"
"""Wait for a child that was forked: until it starts its program, its name is nsys too."""
WATCH = """
import subprocess, sys
from process_tree import adopt_orphans
from room_watch import RoomWatch
adopt_orphans()
pipe = subprocess.PIPE
child = subprocess.Popen(sys.argv[1:], stdin=pipe, stdout=pipe)
child.stdout.readline()
watch = RoomWatch("/", wait_s=WAIT_S, look_s=0.1)
for _ in range(20):
    if child.poll() is None:
        watch.end_nsys_that_waits(free=FREE)
print("runs" if child.poll() is None else "ended")
child.stdin.close()
"""
"""A process that starts its arguments, and then samples a folder with FREE bytes left. The watch
ends everything below its process, so it is no part of the tests' process."""


@pytest.fixture
def shell_path(tmp_path: Path) -> str:
    """A PATH on which `nsys` is a shell that Linux knows by this name."""
    shutil.copy("/bin/bash", tmp_path / "nsys")
    return f"{tmp_path}:{os.environ['PATH']}"


def watch(path: str, *argv: str, free: int = 0, wait_s: int = 0) -> str:
    environ = {**os.environ, "PATH": path, "PYTHONPATH": str(PROFILE.parent)}
    code = WATCH.replace("FREE", str(free)).replace("WAIT_S", str(wait_s))
    words = [sys.executable, "-c", code, *argv]
    done = subprocess.run(
        words, env=environ, capture_output=True, text=True, timeout=100, check=True
    )
    return done.stdout.strip()


def test_an_nsys_that_waits_in_a_full_folder_is_ended(shell_path: str) -> None:
    assert watch(shell_path, "nsys", "-c", WAITS) == "ended"


def test_it_may_wait_where_there_is_room_and_for_some_time(shell_path: str) -> None:
    assert watch(shell_path, "nsys", "-c", WAITS, free=1 << 20) == "runs"
    assert watch(shell_path, "nsys", "-c", WAITS, wait_s=3600) == "runs"


def test_children_that_outlive_their_program_run_on(shell_path: str) -> None:
    assert watch(shell_path, "bash", "-c", WAITS) == "runs"


def test_an_nsys_whose_program_runs_is_left_alone(shell_path: str) -> None:
    script = f"sleep 60 & {SLEEPS}; {WAITS}; kill $!"
    assert watch(shell_path, "nsys", "-c", script) == "runs"


def test_an_nsys_is_left_alone_while_a_child_outlives_its_program(
    shell_path: str, tmp_path: Path
) -> None:
    """nsys waits for such a child, whose parent is no longer nsys."""
    program = f"(sleep 60 & {SLEEPS}; echo $! >{tmp_path}/child)"
    script = f"{program}; {WAITS}; kill $(cat {tmp_path}/child)"
    assert watch(shell_path, "nsys", "-c", script) == "runs"
