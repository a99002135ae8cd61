"""Which processes below profile.py get a signal: the profiled program, and nothing of nsys."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from process_tree import Process, descendants, list_profiled

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
FORKED = "(printf '*3AnalysisServi' >/proc/$BASHPID/comm; echo ready; read -r _); :"
"""A child that is forked and has not started its program, with the name of a thread of nsys."""
PROGRAM = "sleep 60 & echo ready; read -r _; kill $!"
Nsys = Callable[[str, str], None]


@pytest.fixture
def nsys(tmp_path: Path) -> Iterator[Nsys]:
    """`nsys("nsys-launcher", script)`: a shell that Linux knows by this name."""
    children = []

    def start(name: str, script: str) -> None:
        shutil.copy("/bin/bash", tmp_path / name)
        child = subprocess.Popen(
            (tmp_path / name, "-c", script),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"

    yield start
    for child in children:
        child.communicate("\n")


def awaited() -> list[Process]:
    """The programs, once there are any: a child that was forked starts its own a little later."""
    end = time.monotonic() + 60
    while not (processes := list_profiled()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return processes


def test_a_child_that_nsys_has_just_forked_gets_no_signal(nsys: Nsys) -> None:
    nsys("nsys", FORKED)
    assert "*3AnalysisServi" in [process.name for process in descendants()]
    assert list_profiled() == []


def test_what_the_launcher_started_is_the_program(nsys: Nsys) -> None:
    nsys("nsys", PROGRAM)
    nsys("nsys-launcher", PROGRAM)
    (program,) = awaited()
    launcher = next(p for p in descendants() if p.name == "nsys-launcher")
    assert (program.name, program.parent) == ("sleep", launcher.pid)


def test_without_a_launcher_it_is_what_nsys_started(nsys: Nsys) -> None:
    nsys("nsys", PROGRAM)
    assert [program.name for program in awaited()] == ["sleep"]
