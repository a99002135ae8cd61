"""`invoke record` on an armed job of this machine, with a real nsys."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpu_profile.settings.places import ROOT

pytestmark = pytest.mark.nsys
TRAINING = Path(__file__).with_name("training.py")
TORCH = Path(__file__).parents[2] / "data" / "annotated" / "doubles" / "torch_double.py"
WINDOWS, CODE = 5, 7
_REPORT = re.compile(r"rank(\d)\.\S+?\.(\d)\.nsys-rep: .* (\d+) nvtx")


@pytest.fixture
def environ(nsys: str, tmp_path: Path) -> Mapping[str, str]:
    (tmp_path / "torch").mkdir()
    shutil.copy(TORCH, tmp_path / "torch" / "__init__.py")
    (tmp_path / "runs").mkdir(mode=0o700)
    paths = {"PYTHONPATH": str(tmp_path), "REPORT_DIR": str(tmp_path / "runs"), "NSYS": nsys}
    return {**os.environ, **paths}


def invoke(environ: Mapping[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    argv = [str(ROOT / "inv"), *words]
    return subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)


@pytest.fixture
def job(environ: Mapping[str, str]) -> Iterator[str]:
    """A training of two ranks that runs on until it is stopped."""
    training = (sys.executable, str(TRAINING), "100000", "0.02", str(CODE))
    words = ("--record=manual", "--name=armed", "--gpus=0", "--ddp", "--processes=2", "--detach")
    started = invoke(environ, "profile", "--on=host", *words, "--", *training)
    assert started.returncode == 0, started.stderr
    yield "armed"
    invoke(environ, "stop", "--job=armed")


def test_five_windows_of_two_ranks(environ: Mapping[str, str], job: str) -> None:
    while "step" not in invoke(environ, "logs", f"--job={job}").stdout:
        pass
    for number in range(1, WINDOWS + 1):
        done = invoke(environ, "record", f"--job={job}", "--seconds=0.5")
        assert done.returncode == 0, done.stderr
        reports = _REPORT.findall(done.stdout)
        assert [row[:2] for row in reports] == [("0", str(number)), ("1", str(number))]
        assert all(int(events) > 10 for _, _, events in reports), done.stdout
    assert invoke(environ, "status", f"--job={job}").stdout == "running\n"
    refused = invoke(environ, "record", f"--job={job}", "--seconds=1", "--ranks=0,3")
    assert refused.returncode == 2
    assert "are not all armed" in refused.stderr
    assert invoke(environ, "stop", f"--job={job}").returncode == 0
    fetched = invoke(environ, "fetch", f"--job={job}", "--no-html")
    assert fetched.stdout.count(".nsys-rep: ") == 2 * WINDOWS, fetched.stderr
    ended = invoke(environ, "record", f"--job={job}", "--seconds=1")
    assert (ended.returncode, "has ended" in ended.stderr) == (5, True)
