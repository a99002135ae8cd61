"""A window's phases, in each of which profile.py or a call of nsys is killed: the program goes on.

tests/live/nsys/test_record.py kills `record` and nsys itself.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import record_window
import window_files
from left_windows import end_left_windows

from tests.further import further
from tests.unit.agent.test_record_windows import (
    ask,
    await_window,
    call,
    end,
    find_name,
    start,
    wrapper,
)
from tests.unit.agent.wrapper import Wrapper

__all__ = ["wrapper"]
GONE = {"state": "lost", "why": "its profile.py has ended or was killed"}


def await_true(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def reach(wrapper: Wrapper, phase: str) -> int:
    """Ask for a window and wait until it is in a phase. Returns its number, 0 before one."""
    name = find_name(wrapper)
    if phase == "armed":
        return 0
    number = ask(wrapper, 0.1 if phase in ("writing", "done") else 60)
    file = window_files.answer_file(wrapper.out / "windows", number, name)
    if phase == "writing":
        await_true(lambda: (wrapper.directory / "stopping").exists())
    else:
        await_true(lambda: window_files.read(file).get("state") == phase)
    return number


@pytest.mark.parametrize(
    "phase",
    [*map(further, ("armed", "accepted", "writing", "done")), "recording"],
)
def test_profile_py_is_killed(wrapper: Wrapper, phase: str) -> None:
    """Who asks is told so, later windows are refused, nothing is recorded any more, and the job has
    its program's exit code.
    """
    fault = "slow" if phase == "writing" else "none"
    with start(wrapper, "--processes=1", f"--fake={fault}") as job:
        number = reach(wrapper, phase)
        (agent,) = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        os.kill(int(agent), signal.SIGKILL)
        if number:
            answer = await_window(wrapper, number)
            assert answer["state"] == "done" if phase == "done" else answer == GONE
        await_true(lambda: not window_files.list_armed(wrapper.out / "windows"))
        refused = call(wrapper, "request")
        assert (refused.returncode, refused.stderr) == (2, record_window.NOT_ARMED + "\n")
        (wrapper.directory / "go").touch()
        (session,) = (wrapper.directory / "sessions").iterdir()
        await_true(lambda: window_files.read(session).get("state") not in (None, "Collection"))
        output = end(job)
    assert job.returncode == 7, output
    assert "profile.py of rank 0 was killed: its program goes on" in output


@pytest.mark.further
@pytest.mark.parametrize(
    ("call_of_nsys", "why"),
    [("start", "nsys start: it ended by signal 9 and said nothing"), further("stop", None)],
)
def test_a_call_of_nsys_is_killed(wrapper: Wrapper, call_of_nsys: str, why: str | None) -> None:
    """A session that did not start has lost its window; one that did not stop is stopped again."""
    with start(wrapper, f"--fake={call_of_nsys}-killed") as job:
        first = await_window(wrapper, ask(wrapper))
        assert (first["state"], first.get("why")) == ("lost" if why else "done", why)
        assert await_window(wrapper, ask(wrapper))["state"] == "done"
        end(job)
    assert job.returncode == 7


def test_marks_of_a_killed_agent_record_no_more(tmp_path: Path) -> None:
    """Without nsys the program's own trace would go on. Agents that live are left alone."""
    folder = tmp_path / window_files.FOLDER
    folder.mkdir()
    here, there = f"rank0.{window_files.name_host()}", "rank1.another-host"
    lives = f"rank2.{window_files.name_host()}"
    for name in (here, there, lives):
        (folder / f"armed-{name}.json").write_text("{}")
        window_files.tell_marks(folder, name, window_files.TRACE)
    held = window_files.lock(folder / f"armed-{lives}.json")
    assert held is not None
    end_left_windows(tmp_path, os.environ)
    told = {name: (folder / f"marks-{name}").read_bytes()[0] for name in (here, there, lives)}
    assert told == {
        here: window_files.SLEEP,
        there: window_files.TRACE,
        lives: window_files.TRACE,
    }
    os.close(held)
