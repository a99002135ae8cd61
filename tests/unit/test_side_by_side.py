"""What lets live tests run in several processes at once: tests/live/side_by_side.py."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpu_profile.settings.places import ROOT
from tests.further import further
from tests.live.side_by_side import ClusterLock, is_free, share_server

HOLD = """
import sys
from pathlib import Path
from tests.live.side_by_side import ClusterLock
lock = ClusterLock(Path(sys.argv[1]))
lock.take(sys.argv[2])
print("taken", flush=True)
sys.stdin.read()
"""


class Holder:
    """Another process that takes the lock, and gives it back when told to."""

    def __init__(self, directory: Path, mode: str) -> None:
        self._child = subprocess.Popen(
            (sys.executable, "-c", HOLD, str(directory), mode),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def await_taken(self) -> None:
        assert self._child.stdout
        assert self._child.stdout.readline() == b"taken\n"

    def end(self) -> None:
        self._child.communicate(timeout=30)


class Taker:
    """This process, which takes the lock in a thread."""

    def __init__(self, directory: Path, mode: str) -> None:
        self.taken = threading.Event()
        self._lock, self._mode = ClusterLock(directory), mode
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        self._lock.take(self._mode)
        self.taken.set()

    def end(self) -> None:
        assert self.taken.wait(30)
        self._thread.join()
        self._lock.give_back()


@pytest.mark.further
@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        ("shared", "shared", False),
        further("shared", "alone", True),
        ("alone", "shared", True),
        ("alone", "alone", True),
        further("alone", "", False),
    ],
)
def test_who_waits_for_whom(tmp_path: Path, first: str, second: str, waits: bool) -> None:
    other = Holder(tmp_path, first)
    other.await_taken()
    here = Taker(tmp_path, second)
    assert here.taken.wait(0.3 if waits else 30) is not waits
    other.end()
    here.end()


@pytest.mark.further
def test_one_that_wants_to_be_alone_is_not_passed_by(tmp_path: Path) -> None:
    """flock itself lets readers in as long as one of them is there."""
    reader = Holder(tmp_path, "shared")
    reader.await_taken()
    alone = Holder(tmp_path, "alone")
    while is_free(tmp_path / "turn.lock"):
        time.sleep(0.01)  # until the other process has the turn
    here = Taker(tmp_path, "shared")
    assert not here.taken.wait(0.3)
    reader.end()
    alone.await_taken()
    assert not here.taken.is_set()
    alone.end()
    here.end()


def serve(directory: Path) -> contextlib.AbstractContextManager[None]:
    def prepare() -> tuple[str, ...]:
        (directory / "blobs").mkdir()  # fails where it is there already
        return ("sh", "-c", "echo listening; exec sleep 600")

    return share_server(directory, prepare, "listening")


def test_the_first_starts_a_server_and_the_last_one_ends_it(tmp_path: Path) -> None:
    directory = tmp_path / "server"
    with serve(directory):
        with serve(directory):
            number = int((directory / "pid").read_text())
        os.kill(number, 0)
    while sorted(path.name for path in directory.iterdir()) != ["mutex", "users"]:
        time.sleep(0.01)
    while _is_running(number):
        time.sleep(0.01)
    with serve(directory):
        os.kill(int((directory / "pid").read_text()), 0)


def test_a_server_that_was_killed_together_with_its_watcher_is_started_again(
    tmp_path: Path,
) -> None:
    """So it is where a machine ends all processes of a test run."""
    directory = tmp_path / "server"
    with serve(directory):
        killed = int((directory / "pid").read_text())
        os.killpg(os.getpgid(killed), signal.SIGKILL)
        while _is_running(killed):
            time.sleep(0.01)
    assert (directory / "pid").exists()
    with serve(directory):
        assert _is_running(int((directory / "pid").read_text()))


def _is_running(number: int) -> bool:
    """Return whether the process is there, and does not wait for its parent alone."""
    stat = Path(f"/proc/{number}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
