"""`invoke record` on an armed job of this machine, with a real nsys."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpu_profile.command import Result
from gpu_profile.settings.places import ROOT
from tests import invoked

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


def invoke(environ: Mapping[str, str], *words: str) -> Result:
    """Only the job reads PYTHONPATH: without it, the fork server takes the call."""
    read = {name: environ[name] for name in environ if name != "PYTHONPATH"}
    return invoked.invoke(*words, directory=ROOT, **(environ if words[0] == "profile" else read))


def await_step(environ: Mapping[str, str], job: str) -> None:
    while "step" not in invoke(environ, "logs", f"--job={job}").stdout:
        time.sleep(0.1)


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
    await_step(environ, job)
    for number in range(1, WINDOWS + 1):
        done = invoke(environ, "record", f"--job={job}", "--seconds=0.5")
        assert done.returncode == 0, done.stderr
        reports = _REPORT.findall(done.stdout)
        assert [row[:2] for row in reports] == [("0", str(number)), ("1", str(number))]
        assert all(int(events) > 10 for _, _, events in reports), done.stdout
    done = invoke(environ, "record", f"--job={job}", "--steps=10")
    assert done.returncode == 0, done.stderr
    words = (f"--window={WINDOWS + 1}", "--table=nvtx_sum", "--format=csv")
    read = invoke(environ, "stats", "--run=armed", *words)
    (steps,) = re.findall(r",(\d+),[^\n]*gpu-profile:step\n", read.stdout)
    assert int(steps) >= 2 * 10, "of both ranks, and more while nsys starts and stops"
    assert invoke(environ, "status", f"--job={job}").stdout == "running\n"
    refused = invoke(environ, "record", f"--job={job}", "--seconds=1", "--ranks=0,3")
    assert refused.returncode == 2
    assert "are not all armed" in refused.stderr
    assert invoke(environ, "stop", f"--job={job}").returncode == 0
    fetched = invoke(environ, "fetch", f"--job={job}", "--no-html")
    assert fetched.stdout.count(".nsys-rep: ") == 2 * WINDOWS + 2, fetched.stderr
    ended = invoke(environ, "record", f"--job={job}", "--seconds=1")
    assert (ended.returncode, "has ended" in ended.stderr) == (5, True)


@pytest.mark.slow
def test_twenty_windows_of_two_ranks(environ: Mapping[str, str], job: str) -> None:
    """None of them is lost. bench/armed_windows.py measures how far apart they begin."""
    while "step" not in invoke(environ, "logs", f"--job={job}").stdout:
        pass
    for number in range(1, 21):
        done = invoke(environ, "record", f"--job={job}", "--seconds=0.3")
        assert done.returncode == 0, f"window {number}: {done.stderr}"
    (run,) = Path(environ["REPORT_DIR"]).glob("armed-*")
    answers = [json.loads(path.read_text()) for path in (run / "windows").glob("answer-*.json")]
    assert [answer["state"] for answer in answers] == ["done"] * 40


def find_answer(environ: Mapping[str, str], number: int) -> Path:
    (run,) = Path(environ["REPORT_DIR"]).glob("armed-*")
    return next(iter((run / "windows").glob(f"answer-{number}-*.json")), run / "absent")


def await_state(environ: Mapping[str, str], number: int, *states: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            answer = json.loads(find_answer(environ, number).read_text())
            if answer["state"] in states:
                return
            assert answer["state"] != "lost", answer
        time.sleep(0.05)
    raise AssertionError(f"window {number} is never {states}")


def await_stop(environ: Mapping[str, str], number: int) -> None:
    """Wait until the window's time is over: nsys makes its report."""
    with contextlib.suppress(OSError, ValueError, KeyError):  # it is done already
        began = json.loads(find_answer(environ, number).read_text())["began"]
        while time.time() < began + 0.6:
            time.sleep(0.02)


def list_agents(environ: Mapping[str, str]) -> list[int]:
    """The agents of nsys that serve a session of the job's ranks."""
    listed = subprocess.run(["ps", "-ewwo", "pid,args"], capture_output=True, text=True)
    rows = (line.split(None, 1) for line in listed.stdout.splitlines()[1:])
    (run,) = Path(environ["REPORT_DIR"]).glob("armed-*")
    agents = {int(pid) for pid, args in rows if "--start-agent" in args}
    return [pid for pid in agents if str(run.parent) in read_environment(pid)]


def read_environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def test_whatever_is_killed_the_job_goes_on(environ: Mapping[str, str], tmp_path: Path) -> None:
    """`record` is killed in each phase of a window, and nsys in one: that is lost, and named."""
    enough = tmp_path / "enough"
    training = (sys.executable, str(TRAINING), "1000000", "0.05", str(CODE), str(enough))
    words = ("--record=manual", "--name=armed", "--gpus=0", "--processes=1", "--detach")
    assert invoke(environ, "profile", "--on=host", *words, "--", *training).returncode == 0
    asked = [str(ROOT / "inv"), "record", "--job=armed", "--seconds=0.5"]
    await_step(environ, "armed")
    for number, phase in enumerate(("accepted", "recording", "writing", "done"), 1):
        with subprocess.Popen(asked, env=environ, start_new_session=True) as record:
            await_state(environ, number, "recording" if phase == "writing" else phase, "done")
            if phase == "writing":
                await_stop(environ, number)
            os.killpg(record.pid, signal.SIGKILL)
        await_state(environ, number, "done")
    with subprocess.Popen(asked, env=environ, stderr=subprocess.PIPE, text=True) as fifth:
        await_state(environ, 5, "recording")
        for pid in list_agents(environ):
            os.kill(pid, signal.SIGKILL)
        _, said = fifth.communicate()
    assert (fifth.returncode, "window 5 is lost: rank0." in said) == (6, True), said
    refused = invoke(environ, "record", "--job=armed", "--seconds=1")
    assert (refused.returncode, "window 6 is lost" in refused.stderr) == (6, True), refused.stderr
    enough.touch()
    fetched = invoke(environ, "fetch", "--job=armed", "--no-html")
    assert (fetched.returncode, f"exit code {CODE}" in fetched.stderr) == (5, True), fetched.stderr
    assert fetched.stdout.count(".nsys-rep: ") == 4
