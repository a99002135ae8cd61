"""Real Slurms of two nodes on this machine, for these tests only; one of them keeps accounts."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.hosts import Invoked, await_true
from tests.live.ssh.conftest import Server, started

SLURM = Path(__file__).with_name("slurm.sh")
Require = Callable[[str, object], None]


@dataclass(frozen=True)
class Killed:
    """`killed.end("slurmd.n2")`, and `killed.start("slurmd.n2")`, once each."""

    conf: Path

    def end(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        pid = int(self.conf.with_name(f"{name}.id").read_text())
        os.kill(pid, number)
        await_true(lambda: not Path(f"/proc/{pid}").exists(), 60)

    def start(self, name: str) -> None:
        subprocess.run([SLURM, "again", self.conf.parent, name], check=True)


def slurm_of(require: Require, directory: Path, *lines: str) -> Iterator[str]:
    """The path of slurm.conf of a Slurm of our own, with these lines."""
    done = subprocess.run(
        [SLURM, "start", directory, *lines], capture_output=True, text=True, check=False
    )
    try:
        require("slurm", done.returncode and (done.stderr.strip() or "it did not start"))
        yield done.stdout.strip()
    finally:
        subprocess.run([SLURM, "stop", directory], check=True)


@pytest.fixture(scope="session")
def slurm_conf(require: Require, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from slurm_of(require, tmp_path_factory.mktemp("slurm"))


@pytest.fixture(scope="session")
def forgetful_conf(require: Require, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A controller that forgets a job within a minute, and a database that does not."""
    yield from slurm_of(require, tmp_path_factory.mktemp("forgetful"), "MinJobAge=5", "accounting")


@pytest.fixture
def killed(require: Require, tmp_path: Path) -> Iterator[Killed]:
    """A Slurm that may lose its parts, and gives a node up after 10 s."""
    for conf in slurm_of(require, tmp_path / "slurm", "SlurmdTimeout=10"):
        yield Killed(Path(conf))


@pytest.fixture(scope="session")
def login(
    require: Require, slurm_conf: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """An sshd whose users have the cluster's commands."""
    yield from started(require, tmp_path_factory.mktemp("login"), f"SetEnv SLURM_CONF={slurm_conf}")


def invoked_in(tmp_path: Path, nsys: str, conf: str) -> Invoked:
    runs = tmp_path / "runs"
    runs.mkdir()
    shared = tmp_path / "shared dir; $(touch pwned) #1"
    shared.mkdir()
    settings = {"NSYS": nsys, "SLURM_CONF": conf, "SLURM_DIR": str(shared)}
    return Invoked(runs, {**os.environ, **settings})


@pytest.fixture
def invoked(tmp_path: Path, nsys: str, slurm_conf: str) -> Invoked:
    return invoked_in(tmp_path, nsys, slurm_conf)


@pytest.fixture
def forgetful(tmp_path: Path, nsys: str, forgetful_conf: str) -> Invoked:
    return invoked_in(tmp_path, nsys, forgetful_conf)


@pytest.fixture(scope="session")
def torch(require: Require) -> None:
    """A torch of this machine's Python, with torchrun."""
    result = subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True)
    absent = result.returncode or not shutil.which("torchrun")
    require("slurm", absent and "no torch with torchrun: install python3-torch")


@pytest.fixture
def slurm(slurm_conf: str) -> Callable[..., str]:
    """`slurm("scontrol", …)`: what Slurm's own command says."""

    def run(*argv: str) -> str:
        environ = {**os.environ, "SLURM_CONF": slurm_conf}
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
        return done.stdout

    return run
