"""What lets live tests run in several processes at once: a lock on the cluster, and one server for
all of these processes.

Whatever a live test makes has a name of its own, with its process id or port in it. A test that
changes a part that others use (a node, an operator, a kubelet) has the marker `alone`.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

LOCKS = Path.home() / ".cache" / "gpu-profile" / "locks"
"""Of this machine: two checkouts that test at once use one cluster, too."""


class ClusterLock:
    """The right to use the cluster: of many tests at once, or of one test that changes it."""

    def __init__(self, directory: Path = LOCKS) -> None:
        self._directory = directory
        self._files: list[IO[bytes]] = []
        self._mode = ""

    def take(self, mode: str) -> None:
        """Wait until it is free for `mode`: "", "shared" or "alone"."""
        if mode == self._mode == "alone":
            return
        self.give_back()
        if not mode:
            return
        # flock lets readers in for ever before a writer: a writer waits with the turn in its hand.
        turn = self._open("turn")
        fcntl.flock(turn, fcntl.LOCK_EX)
        cluster = self._open("cluster")
        fcntl.flock(cluster, fcntl.LOCK_EX if mode == "alone" else fcntl.LOCK_SH)
        turn.close()
        self._files, self._mode = [cluster], mode

    def give_back(self) -> None:
        for file in self._files:
            file.close()
        self._files, self._mode = [], ""

    def _open(self, name: str) -> IO[bytes]:
        self._directory.mkdir(parents=True, exist_ok=True)
        return (self._directory / f"{name}.lock").open("ab")


def get_mode(item: pytest.Item | None) -> str:
    """Return how a test uses the cluster, as `ClusterLock.take` wants it."""
    if item is None or not item.get_closest_marker("kubernetes"):
        return ""
    return "alone" if item.get_closest_marker("alone") else "shared"


def get_common_directory(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all processes of this test run have: pytest-xdist gives each its own."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextlib.contextmanager
def hold(path: Path) -> Iterator[None]:
    """Keep other processes out of a block of the same path."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def share_server(
    directory: Path, prepare: Callable[[], tuple[str, ...]], ready: str
) -> Iterator[Path]:
    """One server for all processes of a test run: the first starts it, the last one ends it.

    `prepare` writes its configuration into the directory and returns its command line. The server
    is up once its output holds `ready`. Its output is in the file `log` of the directory.
    """
    directory.mkdir(exist_ok=True)
    mutex, log, number = (directory / name for name in ("mutex", "log", "pid"))
    with (directory / "users").open("ab") as users:
        with hold(mutex):
            if not number.exists():
                _start_detached(prepare(), log, number)
                _await_text(log, ready)
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield directory
        finally:
            with hold(mutex):
                fcntl.flock(users, fcntl.LOCK_UN)
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.kill(int(number.read_text()), signal.SIGKILL)
                    _remove_all(directory, but=(mutex.name, "users"))


def _remove_all(directory: Path, but: tuple[str, ...]) -> None:
    for path in directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name not in but:
            path.unlink()


def _start_detached(argv: tuple[str, ...], log: Path, number: Path) -> None:
    """Start a program that outlives this process, and write its process id."""
    script = 'echo $$ >"$1"; log=$2; shift 2; exec "$@" >"$log" 2>&1'
    words = ("setsid", "--fork", "sh", "-c", script, "sh", str(number), str(log), *argv)
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def _await_text(log: Path, text: str, within_s: float = 120) -> None:
    end = time.monotonic() + within_s
    while not log.exists() or text not in log.read_text(errors="replace"):
        assert time.monotonic() < end, log.read_text() if log.exists() else "it did not start"
        time.sleep(0.1)
