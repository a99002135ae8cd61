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


def list_processes(environ: Mapping[str, str], word: str) -> Iterator[tuple[int, int]]:
    """Yield process and parent of those of the job that have this word in their arguments."""
    listed = subprocess.run(["ps", "-ewwo", "pid,ppid,args"], capture_output=True, text=True)
    for pid, parent, args in (line.split(None, 2) for line in listed.stdout.splitlines()[1:]):
        if word in args and environ["REPORT_DIR"] in read_environment(int(pid)):
            yield int(pid), int(parent)


def list_agents(environ: Mapping[str, str]) -> list[int]:
    """The agents of nsys that serve a session of the job's ranks."""
    return [pid for pid, _ in list_processes(environ, "--start-agent")]


def read_environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


@pytest.fixture
def enough(environ: Mapping[str, str], tmp_path: Path) -> Iterator[Path]:
    """The file that ends the program of an armed job of one rank, `armed`, which runs."""
    file = tmp_path / "enough"
    training = (sys.executable, str(TRAINING), "1000000", "0.02", str(CODE), str(file))
    words = ("--record=manual", "--name=armed", "--gpus=0", "--processes=1", "--detach")
    assert invoke(environ, "profile", "--on=host", *words, "--", *training).returncode == 0
    await_step(environ, "armed")
    yield file
    file.touch()


def start_record(environ: Mapping[str, str]) -> "subprocess.Popen[str]":
    command = [str(ROOT / "inv"), "record", "--job=armed", "--seconds=0.5"]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env=environ, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def check_end(environ: Mapping[str, str], enough: Path, reports: int) -> None:
    """The job goes on to its own exit code, and so many windows are fetched."""
    enough.touch()
    fetched = invoke(environ, "fetch", "--job=armed", "--no-html")
    assert (fetched.returncode, f"exit code {CODE}" in fetched.stderr) == (5, True), fetched.stderr
    assert fetched.stdout.count(".nsys-rep: ") == reports, fetched.stderr


@contextlib.contextmanager
def unanswered(environ: Mapping[str, str], number: int) -> Iterator[None]:
    """Hold the rank's agent, so that it acknowledges the request after the body."""
    agents = [pid for pid, _ in list_processes(environ, "profile_ranks.py")]
    for pid in agents:
        os.kill(pid, signal.SIGSTOP)
    (run,) = Path(environ["REPORT_DIR"]).glob("armed-*")
    while not (run / "windows" / f"request-{number}.json").exists():
        time.sleep(0.02)
    yield
    for pid in agents:
        os.kill(pid, signal.SIGCONT)


def reach(environ: Mapping[str, str], number: int, phase: str) -> None:
    await_state(environ, number, "recording" if phase == "writing" else phase, "done")
    if phase == "writing":
        await_stop(environ, number)


def test_whatever_is_killed_the_job_goes_on(environ: Mapping[str, str], enough: Path) -> None:
    """`record` is killed in each phase of a window, and nsys in one: that is lost, and named.

    tests/live/ssh/test_record_ssh.py has the phase after them, the fetch.
    """
    phases = ("asked", "accepted", "recording", "writing", "done")
    for number, phase in enumerate(phases, 1):
        held = unanswered(environ, number) if phase == "asked" else contextlib.nullcontext()
        with start_record(environ) as record, held:
            if phase != "asked":
                reach(environ, number, phase)
            os.killpg(record.pid, signal.SIGKILL)
        await_state(environ, number, "done")
    with start_record(environ) as sixth:
        await_state(environ, 6, "recording")
        for pid in list_agents(environ):
            os.kill(pid, signal.SIGKILL)
        _, said = sixth.communicate()
    assert (sixth.returncode, "window 6 is lost: rank0." in said) == (6, True), said
    refused = invoke(environ, "record", "--job=armed", "--seconds=1")
    assert (refused.returncode, "window 7 is lost" in refused.stderr) == (6, True), refused.stderr
    check_end(environ, enough, len(phases))


@pytest.mark.parametrize("killed", ["importer", "agent"])
def test_nsys_is_killed_while_it_writes_a_report(
    environ: Mapping[str, str], enough: Path, killed: str
) -> None:
    """We import the stream that it leaves. Without its agent, the next window is lost and named."""
    with start_record(environ) as record:
        writing: list[tuple[int, int]] = []
        while not writing:
            time.sleep(0.05)
            agents = list_agents(environ)
            importing = list_processes(environ, "QdstrmImporter --input-file")
            writing = [(pid, agent) for pid, agent in importing if agent in agents]
        ((importer, agent),) = writing
        os.kill(importer if killed == "importer" else agent, signal.SIGKILL)
        output, said = record.communicate()
    assert (record.returncode, ".1.nsys-rep: " in output) == (0, True), said
    second = invoke(environ, "record", "--job=armed", "--seconds=0.5")
    is_lost = "window 2 is lost: rank0." in second.stderr
    assert (second.returncode, is_lost) == ((6, True) if killed == "agent" else (0, False))
    check_end(environ, enough, 1 if killed == "agent" else 2)
