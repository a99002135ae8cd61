"""profile --with torch on this machine, without nsys, with a double of torch."""

import gzip
import json
import re
import sys
import time
from pathlib import Path

import pytest

from gpu_profile.command import Result
from tests.invoked import invoke
from tests.live.torch_site import write_site


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return write_site(tmp_path)


def profile(place: Path, *words: str, steps: int = 9, **env: str) -> Result:
    """Type profile --with torch where PATH has no nsys."""
    site = f"--env=PYTHONPATH={place / 'site'}"
    command = (sys.executable, "train.py", str(steps))
    argv = ("profile", "--on=host", "--with=torch", "--gpus=0", "--no-html", "--name=t", site)
    words = ("--annotate=modules", *words)
    return invoke(*argv, *words, "--", *command, directory=place, PATH="/usr/bin:/bin", **env)


def test_a_program_is_recorded_and_read_without_nsys(place: Path) -> None:
    done = profile(place, "--env=RANK=0", "--env=WORLD_SIZE=1")
    assert done.returncode == 0, done.stderr
    assert "steps 0 to 8" in done.stdout
    assert "found by range gpu-profile:step" in done.stdout
    (run,) = place.glob("t-*")
    (trace,) = run.glob("rank0.*.pt.trace.json.gz")
    assert trace.stat().st_mode & 0o777 == 0o600
    assert json.loads(gzip.decompress(trace.read_bytes()))["distributedInfo"] == {
        "rank": 0,
        "world_size": 1,
    }
    assert not [path for path in run.iterdir() if path.name.startswith(".")]
    record = json.loads((run / "run.json").read_text())
    assert (record["spec"]["with"], record["nsys"]) == ("torch", [])
    table = invoke("stats", "--table=module_sum", "--format=json", directory=place)
    rows = json.loads(table.stdout)["module_sum"]
    assert {row["Module"] for row in rows} == {
        *("Module", "(optimizer Optimizer)", "(unattributed)")
    }


def test_windows_of_an_armed_job_are_traced_and_read(place: Path) -> None:
    """Nothing is recorded before the first, and each is a trace of whole steps."""
    started = profile(place, "--record=manual", "--detach", steps=10**9)
    assert started.returncode == 0, started.stderr
    try:
        while not any(any(file.read_bytes()) for file in place.glob("t-*/windows/steps-*")):
            time.sleep(0.05)
        for number, length in ((1, "--steps=5"), (2, "--seconds=0.2")):
            done = invoke("record", "--job=t", length, directory=place)
            assert done.returncode == 0, done.stderr
            assert re.search(rf"/rank0\.\S+\.{number}\.pt\.trace\.json\.gz: ", done.stdout)
        read = invoke("diagnose", "--run=t", "--window=1", directory=place)
        assert "found by range gpu-profile:step" in read.stdout, read.stderr
        (run,) = place.glob("t-*")
        assert not list(run.glob("*.pt.trace.json"))
    finally:
        invoke("stop", "--job=t", directory=place)
    fetched = invoke("fetch", "--job=t", "--no-html", directory=place)
    assert fetched.stdout.count(".pt.trace.json.gz: ") == 2, fetched.stderr


def test_a_part_is_recorded_and_a_program_that_ends_before_is_told(place: Path) -> None:
    done = profile(place, "--steps=4:8", steps=20)
    assert "steps 4 to 7" in done.stdout, done.stderr
    short = profile(place, "--steps=40:80")
    assert short.returncode == 6
    assert "no report of rank 0" in short.stderr
    assert "--steps 40:80: it ended after 9 steps. Choose --steps among" in short.stderr


def test_a_torch_without_kineto_goes_on_and_is_told(place: Path) -> None:
    site = place / "site" / "torch" / "__init__.py"
    site.write_text(site.read_text().replace("KINETO = True", "KINETO = False"))
    done = profile(place)
    assert done.returncode == 6
    log = next(place.glob("t-*/output.log")).read_text()
    assert "trained" in log
    assert "marks are off, the job goes on: RuntimeError: this torch is built without" in log
    assert "profile.py: rank 0: torch.profiler wrote no report" in log
