"""Windows on demand: record_window.py asks, profile.py records them, and the program goes on."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import record_window
import record_windows
import window_files
import window_schedule
from gpu_profile_marks import step_counter
from gpu_profile_marks.step_counter import StepCounter
from nsys_session import Session
from record_windows import Windows

from gpu_profile.command import Result
from tests.forked import run_python
from tests.further import further
from tests.unit.agent.wrapper import PROFILE, Wrapper, python, wrapper_in

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nsys sessions of POSIX systems")
RUNS = "import sys; print('ready', flush=True); sys.stdin.readline(); raise SystemExit(7)"
"""A program that ends with code 7 once it is told to."""
Job = subprocess.Popen[str]


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    return wrapper_in(tmp_path)


def start(wrapper: Wrapper, *words: str) -> Job:
    job = subprocess.Popen(
        wrapper.argv("--record=manual", *words, "--", *python(RUNS)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    return job


@pytest.fixture
def job(wrapper: Wrapper) -> Iterator[Job]:
    with start(wrapper) as job:
        yield job


def end(job: Job) -> str:
    """Have the program end; return what is left of the output."""
    output, _ = job.communicate("\n", timeout=60)
    return output


def call(wrapper: Wrapper, verb: str, *words: str) -> Result:
    script = PROFILE.with_name("record_window.py")
    return run_python((str(script), verb, str(wrapper.out), *words), wrapper.directory, {})


def ask(wrapper: Wrapper, seconds: float = 0.1) -> int:
    answer = call(wrapper, "request", f"--seconds={seconds}", "--lead=0.5")
    assert answer.returncode == 0, answer.stderr
    return int(json.loads(answer.stdout)["window"])


def agree(wrapper: Wrapper) -> int:
    """Ask as a launcher does whose pods have a folder each."""
    armed = json.loads(call(wrapper, "armed").stdout)
    number, start = armed["last"] + 1, armed["now"] + 0.5
    what = (f"--number={number}", f"--start={start}", f"--names={','.join(armed['names'])}")
    for _ in range(2):  # two pods with one claim ask alike
        assert call(wrapper, "request", *what, "--seconds=0.1").returncode == 0
    other = call(wrapper, "request", *what[:2], "--seconds=9", "--names=rank0.else")
    assert (other.returncode, other.stderr) == (3, record_window.BUSY + "\n")
    return int(number)


def await_window(wrapper: Wrapper, number: int) -> Any:
    """The answer of the only rank."""
    awaited = call(wrapper, "await", str(number), "--here")
    assert awaited.returncode == 0, awaited.stderr
    (answer,) = json.loads(awaited.stdout)["answers"].values()
    return answer


def test_windows_are_recorded_while_the_program_runs(wrapper: Wrapper, job: Job) -> None:
    for number, begin in ((1, ask), (2, agree)):
        assert begin(wrapper) == number
        answer = await_window(wrapper, number)
        assert (answer["state"], answer.get("note")) == ("done", ""), answer
        assert 0.1 <= answer["ended"] - answer["began"] < 5
        report = wrapper.out / answer["report"]
        assert report.name.endswith(f".{number}.nsys-rep")
        assert report.stat().st_mode & 0o777 == 0o600
    assert (end(job), job.returncode) == ("", 7)
    assert len(list(wrapper.out.glob("*.nsys-rep"))) == 2
    assert not window_files.list_armed(wrapper.out / "windows")


def test_a_job_without_a_window_has_no_report_and_its_own_exit_code(
    wrapper: Wrapper, job: Job
) -> None:
    assert (end(job), job.returncode, list(wrapper.out.glob("*.nsys-rep"))) == ("", 7, [])


@pytest.mark.further
def test_a_window_in_which_the_program_ends_is_kept(wrapper: Wrapper, job: Job) -> None:
    number = ask(wrapper, 60)
    file = window_files.answer_file(wrapper.out / "windows", number, find_name(wrapper))
    while window_files.read(file).get("state") != "recording":
        time.sleep(0.02)
    end(job)
    answer = await_window(wrapper, number)
    assert (answer["state"], answer.get("note")) == ("done", "the program ended in it"), answer
    assert job.returncode == 7


def find_name(wrapper: Wrapper) -> str:
    (name,) = window_files.list_armed(wrapper.out / "windows")
    return name


@pytest.mark.further
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("unstoppable", "Connection to Agent lost."),
        further("reportless", "there is no report of it"),
        further("emptied", "there is no report of it"),
    ],
)
def test_a_lost_window_is_named_and_the_program_goes_on(
    wrapper: Wrapper, fault: str, why: str
) -> None:
    """nsys returns 0 where it wrote nothing."""
    with start(wrapper, f"--fake={fault}") as job:
        name = find_name(wrapper)
        assert await_window(wrapper, ask(wrapper)) == {
            **await_window(wrapper, 1),
            **{"state": "lost", "why": why},
        }
        output = end(job)
    assert (job.returncode, output) == (7, f"profile.py: {name}: window 1 is lost: {why}\n")
    assert not [path for path in wrapper.out.glob("*.nsys-rep") if not path.stat().st_size]


@pytest.mark.further
def test_the_stream_of_a_window_is_kept_under_its_number(
    wrapper: Wrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nsys leaves it where its importer was killed; here is no other importer."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with start(wrapper, "--fake=streaming") as job:
        name = find_name(wrapper)
        assert await_window(wrapper, ask(wrapper))["state"] == "lost"
        assert "is a recording that no importer here reads" in end(job)
    assert [path.name for path in wrapper.out.glob("*.qdstrm")] == [f"{name}.1.qdstrm"]


def test_a_window_ends_before_the_folder_of_nsys_is_full(
    wrapper: Wrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_windows, "_LEAST_ROOM", 1 << 60)
    monkeypatch.setenv("TMPDIR", str(wrapper.directory))
    session = Session("/bin/false", 0, {})
    windows = Windows(session, wrapper.out, "rank0.host")
    note = windows.await_end(600)
    assert note == f"{wrapper.directory} has less than {1 << 40} MB free"


def test_a_window_of_steps_ends_after_whole_ones(
    wrapper: Wrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step that is open at the beginning counts for none. Marks show each one's number."""
    monkeypatch.setattr(record_windows, "_STEP_POLL_S", 0.001)
    folder = wrapper.out / window_files.FOLDER
    folder.mkdir(parents=True)
    counter = StepCounter(str(wrapper.out / "rank0.host.steps.json"))
    for number in range(5):
        counter.show(number)
    windows = Windows(Session("/bin/false", 0, {}), wrapper.out, "rank0.host")
    notes: list[str] = []
    waiting = threading.Thread(target=lambda: notes.append(windows.await_end(60, 2)))
    waiting.start()
    while not notes:
        number += 1
        counter.show(number)
        time.sleep(0.01)
    waiting.join()
    assert notes == [""]
    assert windows.await_end(0, 2) == "0 of 2 steps were made in time"
    ended = {"steps-rank0.host-1": 90}
    assert windows.count_steps(ended) == number - 1, "another worker has taken its place"
    StepCounter("").show(1)
    StepCounter(str(wrapper.directory / "rank0.host.steps.json")).show(1)
    assert record_window.list_missing_steps(folder, ["rank0.host", "rank1.host"]) == ["rank1.host"]


def test_a_program_waits_while_nsys_collects_what_it_launched(wrapper: Wrapper, job: Job) -> None:
    """It waits where a step begins."""
    folder, name = wrapper.out / window_files.FOLDER, find_name(wrapper)
    counter = StepCounter(str(wrapper.out / f"{name}.steps.json"))
    counter.show(1)
    request = call(wrapper, "request", "--steps=2", "--seconds=60", "--lead=0.1")
    number = int(json.loads(request.stdout)["window"])
    answer = window_files.answer_file(folder, number, name)
    begun = 1
    while not counter.is_to_wait():
        begun += window_files.read(answer).get("state") == "recording"
        counter.show(begun)
        time.sleep(0.01)
    waiting = threading.Thread(target=counter.wait)
    waiting.start()
    assert await_window(wrapper, number)["state"] == "done"
    waiting.join()
    assert not counter.is_to_wait()
    assert not window_files.list_doing(folder, name, window_files.WAITS)
    end(job)


def test_a_window_does_not_wait_for_a_process_that_has_died(wrapper: Wrapper) -> None:
    """Only one that lives can wait where its next step begins."""
    folder = wrapper.out / window_files.FOLDER
    folder.mkdir(parents=True)
    with subprocess.Popen(python(RUNS), stdin=subprocess.PIPE) as ended:
        ended.communicate(b"\n")
    windows = Windows(Session("/bin/false", 0, {}), wrapper.out, "rank0.host")
    began = time.monotonic()
    windows.await_idle({f"steps-rank0.host-{ended.pid}"})
    assert time.monotonic() - began < record_windows._IDLE_S / 2


def test_a_program_goes_on_where_nobody_ends_its_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_counter, "_LONGEST_S", 0.01)
    folder = tmp_path / window_files.FOLDER
    folder.mkdir()
    window_files.tell_marks(folder, "rank0.host", window_files.WAIT)
    counter = StepCounter(str(tmp_path / "rank0.host.steps.json"))
    counter.show(3)
    assert counter.is_to_wait()
    counter.wait()
    assert not counter.is_to_wait(), "once a window"
    window_files.tell_marks(folder, "rank0.host", window_files.MARK)
    assert not counter.is_to_wait()
    window_files.tell_marks(folder, "rank0.host", window_files.WAIT)
    assert counter.is_to_wait()
    assert list(window_files.read_steps(folder, "rank0.host").values()) == [3]


def test_windows_come_again_and_the_latest_are_kept(wrapper: Wrapper, job: Job) -> None:
    """On a schedule the agents need nobody who asks."""
    words = ("--every=0.3", "--seconds=0.01", "--lead=0.1", "--keep=1")
    begun = call(wrapper, "schedule", *words)
    assert json.loads(begun.stdout)["window"] == 1, begun.stderr
    while window_schedule.find_last_answer(wrapper.out / "windows") < 3:
        time.sleep(0.05)
    refused = call(wrapper, "request", "--seconds=1")
    assert (refused.returncode, record_window.END_IT in refused.stderr) == (2, True)
    last = json.loads(call(wrapper, "schedule", "--every=0").stdout)["window"]
    reports = sorted(wrapper.out.glob("*.nsys-rep"))
    assert (len(reports), last >= 3) == (1, True)
    assert ask(wrapper) == last + 1
    assert await_window(wrapper, last + 1)["state"] == "done"
    assert reports[0].exists()
    end(job)


def test_what_is_refused(wrapper: Wrapper, job: Job) -> None:
    name = find_name(wrapper)
    refused = call(wrapper, "request", "--ranks=0,3")
    assert (refused.returncode, refused.stderr) == (
        2, f"--ranks 0,3 are not all armed: {name} are\n"
    )  # fmt: skip
    assert call(wrapper, "await", "9").returncode == 2
    refused = call(wrapper, "request", "--steps=10")
    assert (refused.returncode, refused.stderr) == (2, f"{name}: {record_window.NO_STEPS}\n")
    held = window_files.lock(wrapper.out / "windows" / "record.lock")
    assert held is not None
    assert call(wrapper, "request").returncode == 3
    end(job)


def test_armed_ranks_are_seen_by_their_locks_where_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lustre's clients have none by default: then an agent counts as living."""
    held = window_files.lock(tmp_path / "armed-rank0.host.json")
    (tmp_path / "armed-rank1.host.json").touch()
    assert window_files.lock(tmp_path / "armed-rank0.host.json") is None
    assert window_files.list_armed(tmp_path) == ["rank0.host"]

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert window_files.list_armed(tmp_path) == ["rank0.host", "rank1.host"]
    with record_window.held_for_request(tmp_path):
        pass
    assert held is not None
    os.close(held)


def test_a_job_that_was_not_armed_is_told_how(wrapper: Wrapper) -> None:
    wrapper.out.mkdir()
    refused = call(wrapper, "request")
    assert refused.returncode == 2
    assert "no tool can attach nsys" in refused.stderr
    assert "`invoke profile --record manual`" in refused.stderr
