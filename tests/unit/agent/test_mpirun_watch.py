"""An mpirun that waits on for ranks that have all ended is ended, and no other one is."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mpirun_watch import MpirunWatch
from process_tree import Process

from tests.further import keep_first
from tests.unit.agent.wrapper import Wrapper, wrapper_in

MPIRUN = """#!{python}
import os, subprocess, sys, time
size = {{"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": sys.argv[1]}}
subprocess.run(["sleep", sys.argv[2]], env={{**os.environ, **size}})
time.sleep(float(sys.argv[3]))
"""


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(MPIRUN.format(python=sys.executable))
    mpirun.chmod(0o755)
    return wrapper_in(tmp_path)


@pytest.mark.parametrize("plain", keep_first(1, [False, True]), ids=["recorded", "plain"])
def test_an_mpirun_that_outlives_its_ranks_is_ended(wrapper: Wrapper, plain: bool) -> None:
    words = ["--plain"] * plain
    done = wrapper.run(*words, "--mpirun-wait=1", "--", "./mpirun", "2", "4", "600")
    assert done.returncode == 1
    assert "mpirun waited on for ranks that had all ended" in done.stderr
    assert wrapper.reports() == ([] if plain else ["rank0.nsys-rep"])


def test_an_mpirun_that_ends_by_itself_keeps_its_exit_code(wrapper: Wrapper) -> None:
    done = wrapper.run("--mpirun-wait=600", "--", "./mpirun", "2", "0.1", "0")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(params=["2", "1"], ids=["one machine", "two machines"])
def rank(request: pytest.FixtureRequest) -> Iterator[tuple[int, bool]]:
    """The pid of a rank of two, and whether both are of this machine."""
    size = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": request.param}
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, **size})
    while b"OMPI" not in Path(f"/proc/{child.pid}/environ").read_bytes():
        time.sleep(0.01)
    yield child.pid, request.param == "2"
    child.kill()
    child.wait()


def _mpirun(name: str = "prterun") -> Process:
    return Process(7, 1, name, False, 0)


def test_only_ranks_of_this_machine_tell_the_end(rank: tuple[int, bool]) -> None:
    pid, here = rank
    watch = MpirunWatch(0.0)
    ranks = [Process(8, 7, "sh", False, 0), Process(pid, 8, "python3", False, 0)]
    assert watch.look([_mpirun(), *ranks]) == []
    ended = [rank._replace(has_ended=True) for rank in ranks]
    assert watch.look([_mpirun(), *ended]) == ([7] if here else [])
    assert watch.look([_mpirun()]) == ([7] if here else [])


def test_an_mpirun_without_ranks_so_far_is_left() -> None:
    watch = MpirunWatch(0.0)
    assert watch.look([_mpirun()]) == []
    assert watch.look([_mpirun(), Process(8, 7, "ssh", False, 0)]) == []
    assert watch.look([_mpirun()]) == []


def test_the_wait_begins_anew_with_each_rank(rank: tuple[int, bool]) -> None:
    pid, _ = rank
    watch = MpirunWatch(600.0)
    running = [_mpirun(), Process(pid, 7, "python3", False, 0)]
    for processes in (running, [_mpirun()], running, [_mpirun()]):
        assert watch.look(processes) == []


def test_another_program_is_no_mpirun(rank: tuple[int, bool]) -> None:
    pid, _ = rank
    watch = MpirunWatch(0.0)
    server = _mpirun("server")
    assert watch.look([server, Process(pid, 7, "python3", False, 0)]) == []
    assert watch.look([server]) == []
