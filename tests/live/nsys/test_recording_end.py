"""The end of a recording by default, with a real nsys: the program goes on, whatever is killed."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.nsys import export
from gpu_profile.runs.reports.export_report import run_export
from tests.unit.agent.wrapper import Wrapper

pytestmark = pytest.mark.nsys
TRAINING = Path(__file__).with_name("training.py")
TORCH = Path(__file__).parents[2] / "data" / "annotated" / "doubles" / "torch_double.py"
QUIET = ("--trace=nvtx", "--sample=none", "--cpuctxsw=none")
STEPS, CODE = 120, 7
"""60 steps are recorded, 20 pass while nsys makes its report, the others are the control."""


@pytest.fixture
def wrapper(nsys: str, tmp_path: Path) -> Wrapper:
    (tmp_path / "torch").mkdir()
    shutil.copy(TORCH, tmp_path / "torch" / "__init__.py")
    return Wrapper(tmp_path, Path(nsys))


def start(wrapper: Wrapper, *words: str) -> "subprocess.Popen[str]":
    training = (sys.executable, str(TRAINING), str(STEPS), "0.13", str(CODE))
    return wrapper.start(*QUIET, *words, "--", *training, PYTHONPATH=str(wrapper.directory))


def read_until(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdout is not None
    for text in process.stdout:
        if text == line:
            return
    raise AssertionError(f"the program ended without {line!r}")


def read_steps(wrapper: Wrapper, rank: int = 0) -> Any:
    (file,) = wrapper.out.glob(f"rank{rank}.*.steps.json")
    return json.loads(file.read_text())


def count_steps(wrapper: Wrapper) -> list[int]:
    """The steps in each report."""
    query = (
        "SELECT count(*) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId"
        " WHERE coalesce(text, value) = 'step'"
    )
    counts = []
    for report in sorted(wrapper.out.glob("*.nsys-rep")):
        output = report.with_suffix(".sqlite")
        done = run_export(export.export_command((str(wrapper.nsys),), report, output))
        assert done.returncode == 0, done.last_line
        with closing(sqlite3.connect(output)) as database:
            counts += [int(count) for (count,) in database.execute(query)]
    return counts


def find_nsys_process(process: "subprocess.Popen[str]", word: str) -> int:
    """The process of nsys below profile.py whose command line has this word."""
    listed = subprocess.run(["ps", "-ewwo", "pid,ppid,args"], capture_output=True, text=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()[1:]]
    (pid,) = (row[0] for row in rows if row[1] == str(process.pid) and word in row[2].split())
    return int(pid)


def test_two_ranks_end_after_one_step_and_the_program_goes_on(wrapper: Wrapper) -> None:
    with start(wrapper, "--processes=2") as process:
        output, _ = process.communicate(timeout=180)
    assert process.returncode == CODE, output
    assert output.count("the recording ended after step 59; the program goes on") == 2
    for rank in range(2):
        facts = read_steps(wrapper, rank)
        assert (facts["steps"], len(facts["ms"]), facts["recorded"]) == (STEPS, STEPS, [0, 60])
        assert 60 < facts["control"] < STEPS
    assert count_steps(wrapper) == [60, 60]


@pytest.mark.parametrize("word", ["profile", "--start-agent"])
def test_the_program_outlives_nsys(wrapper: Wrapper, word: str) -> None:
    """The exit code is the program's, also where nsys was killed or returned 0."""
    with start(wrapper) as process:
        read_until(process, "step 5\n")
        os.kill(find_nsys_process(process, word), signal.SIGKILL)
        read_until(process, f"step {STEPS - 1}\n")
        output, _ = process.communicate(timeout=60)
    assert process.returncode == CODE, output
    assert read_steps(wrapper)["steps"] == STEPS


def test_the_program_outlives_profile_py(wrapper: Wrapper) -> None:
    """Nobody ends the recording, and nsys makes its report of all steps."""
    with start(wrapper) as process:
        read_until(process, "step 5\n")
        process.kill()
        read_until(process, f"step {STEPS - 1}\n")
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert read_steps(wrapper)["recorded"] == [0, STEPS]
