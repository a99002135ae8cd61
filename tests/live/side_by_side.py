"""What lets live tests run in several processes at once: a lock on the cluster, and one server for
all of these processes.

Whatever a live test makes has a name of its own, with its process id or port in it. A test that
changes a part that others use (a node, an operator, a kubelet) has the marker `alone`.
"""

import contextlib
import fcntl
import os
import shutil
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
) -> Iterator[None]:
    """One server for all processes of a test run: the first starts it, and it ends with the last.

    `prepare` writes its configuration into the directory and returns its command line. The server
    is up once its output, the file `log` of the directory, holds `ready`.
    """
    directory.mkdir(exist_ok=True)
    with (directory / "users").open("ab") as users:
        with hold(directory / "mutex"):
            fcntl.flock(users, fcntl.LOCK_SH)
            if is_free(directory / "running"):
                _clear(directory)
                argv = ("setsid", "--fork", "sh", "-c", _SERVE, "sh", str(directory), *prepare())
                subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
                _await_text(directory / "log", ready)
        yield


def is_free(lock: Path) -> bool:
    """Return whether no process holds the lock of this file, which is made where it is missing."""
    with lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _clear(directory: Path) -> None:
    """Remove the files of a server that was killed together with what would have removed them."""
    for path in directory.iterdir():
        if path.name in ("users", "mutex"):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


_SERVE = """
cd "$1"; shift
sh -c 'flock 9; echo $$ >pid; exec "$@" >log 2>&1' sh "$@" 9>running &
exec flock users sh -c 'kill -9 "$(cat pid)"
find . -mindepth 1 -maxdepth 1 ! -name users ! -name mutex -exec rm -rf {} +' >/dev/null 2>&1
"""
"""Serve until nobody holds the lock of `users`: the kernel drops those of killed processes, too.
The server itself holds the lock of `running` as long as it runs: the next user starts none."""


def _await_text(log: Path, text: str, within_s: float = 120) -> None:
    end = time.monotonic() + within_s
    while not log.exists() or text not in log.read_text(errors="replace"):
        assert time.monotonic() < end, log.read_text() if log.exists() else "it did not start"
        time.sleep(0.1)
