"""tests/forked_workers.py: outcomes are reported as by pytest alone, and a death as a failure."""

import re
import sys
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.settings.places import ROOT

SHARED = """
import pytest

@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    (base / "made").mkdir()  # fails where the module is shared among processes of one folder
    return base

@pytest.mark.parametrize("number", range(20))
def test_shared(folder, number):
    assert folder.name.startswith("fork")

def test_refused(folder):
    print("printed by the test")
    assert (1, 2) == (1, 3)

def test_left_out():
    pytest.skip("not here")
"""
SINGLE = """
import os, time
import pytest

@pytest.mark.parametrize("number", range(20))
def test_single(tmp_path, number):
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "made").touch()
"""
DEADLY = """
def test_deadly():
    tests = f"/proc/{os.getppid()}/exe"  # is gone with their end, before anyone waits for them
    if not os.fork():
        while os.path.exists(tests):
            time.sleep(0.01)  # holds the pipe of the reports open
        os._exit(0)
    os._exit(7)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("")
    (tmp_path / "test_shared.py").write_text(SHARED)
    (tmp_path / "test_single.py").write_text(SINGLE)
    return tmp_path


def run_tests(place: Path, *words: str) -> Result:
    env = {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_XDIST_WORKER": ""}
    argv = (sys.executable, "-m", "pytest", "-p", "tests.forked_workers", "-p", "no:xdist")
    options = ("--forks=2", f"--basetemp={place / 'temporary'}", f"--rootdir={place}", *words)
    return process.run(Command(argv=(*argv, *options, str(place)), env=env))


@pytest.mark.further
def test_outcomes_details_and_order_are_those_of_pytest(place: Path) -> None:
    done = run_tests(place, "--durations=3", "--durations-min=0", "-rs")
    assert done.returncode == 1, done.stderr
    assert re.search(r"1 failed, 40 passed, 1 skipped in", done.stdout)
    assert "At index 1 diff: 2 != 3" in done.stdout
    assert "printed by the test" in done.stdout
    assert re.search(r"test_shared\.py:\d+: not here", done.stdout)
    assert "slowest 3 durations" in done.stdout
    again = run_tests(place, "-x", "--last-failed", "-v")
    assert again.returncode == 1
    assert "test_refused FAILED" in again.stdout
    assert "stopping after 1 failures" in again.stdout


@pytest.mark.further
def test_a_fork_that_dies_fails_its_test_and_ends_the_run(place: Path) -> None:
    with (place / "test_single.py").open("a") as file:
        file.write(DEADLY)
    done = run_tests(place)
    assert done.returncode == 2, done.stderr
    assert re.search(r"_ test_deadly _+\nthe process of this test ended with 7\n", done.stdout)
