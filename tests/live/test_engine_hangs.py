"""A dockerd of the test's own that hangs (SIGSTOP): waited for up to two minutes, and no longer."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpu_profile.runs import record
from gpu_profile.runs.record import RunRecord
from tests.live.hosts import Invoked, await_true, error_line

pytestmark = pytest.mark.docker
RUN = RunRecord(
    id="train-1",
    launcher="docker",
    command=("sleep", "600"),
    handle="docker://train-1",
    phase="running",
    ranks=(0,),
)
SHOWN = ("/bin", "/lib", "/lib64", "/usr")


@dataclass(frozen=True)
class Engine:
    """A dockerd without network, with a container `train-1` as `profile` labels it."""

    directory: Path
    daemon: "subprocess.Popen[bytes]"

    @property
    def address(self) -> str:
        return f"unix://{self.directory}/sock"

    def docker(self, *words: str) -> str:
        command = ["docker", "--host", self.address, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def answers(self) -> bool:
        assert self.daemon.poll() is None, (self.directory / "log").read_text()
        command = ["docker", "--host", self.address, "version"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def start_job(self) -> None:
        empty = self.directory / "empty.tar"
        subprocess.run(["tar", "-cf", empty, "-T", "/dev/null"], check=True)
        self.docker("import", str(empty), "empty")
        shown = [f"--volume={place}:{place}:ro" for place in SHOWN if Path(place).exists()]
        label = "--label=gpu-profile.run=train-1"
        words = ("--detach", "--network=none", "--name=train-1", label)
        self.docker("run", *words, *shown, "empty", "/bin/sleep", "600")


@pytest.fixture
def engine(docker: None) -> Iterator[Engine]:
    if os.geteuid():
        pytest.skip("docker: an engine of the test's own takes root")
    place = Path(tempfile.mkdtemp(prefix="engine-"))  # a socket's path has 104 bytes at most
    options = [
        "--log-level=error",
        *(f"--data-root={place}/data", f"--exec-root={place}/exec", f"--pidfile={place}/pid"),
        *(f"--host=unix://{place}/sock", "--containerd-namespace=gpu-profile-hangs"),
        *("--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver=vfs"),
    ]
    with (place / "log").open("wb") as log:
        command = ["unshare", "--net", "dockerd", *options]
        daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    own = Engine(place, daemon)
    try:
        await_true(own.answers)
        own.start_job()
        yield own
        daemon.send_signal(signal.SIGCONT)
        own.docker("rm", "--force", "train-1")
    finally:
        daemon.send_signal(signal.SIGCONT)
        daemon.terminate()
        daemon.wait(60)
        # dockerd mounts this onto itself, and leaves it where it did not start
        subprocess.run(["umount", "--lazy", place / "data"], capture_output=True, check=False)
        shutil.rmtree(place, ignore_errors=True)


def runs_docker(pid: int, *words: str) -> bool:
    """Whether a process has a child `docker WORDS…`."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{child}/cmdline").read_text().split("\0")
            if command[: len(words) + 1] == ["docker", *words]:
                return True
    return False


@dataclass(frozen=True)
class Fetch:
    """A `fetch` of the running job, which follows its output."""

    engine: Engine
    invoked: Invoked
    directory: Path
    child: "subprocess.Popen[str]"


@pytest.fixture
def fetch(engine: Engine, tmp_path: Path) -> Fetch:
    runs = tmp_path / "runs"
    runs.mkdir()
    directory = record.create_run(runs, "train-1")
    record.save_run(RUN, directory)
    invoked = Invoked(runs, {**os.environ, "DOCKER_HOST": engine.address})
    child = invoked.start("fetch", "--job", "train-1")
    await_true(lambda: runs_docker(child.pid, "logs", "--follow"))
    return Fetch(engine, invoked, directory, child)


def test_an_engine_that_hangs_is_waited_for(fetch: Fetch) -> None:
    fetch.engine.daemon.send_signal(signal.SIGSTOP)
    await_true(lambda: runs_docker(fetch.child.pid, "version"))  # the answer is late
    fetch.engine.daemon.send_signal(signal.SIGCONT)
    await_true(lambda: runs_docker(fetch.child.pid, "container", "inspect"))
    fetch.engine.docker("kill", "train-1")
    _, err = fetch.child.communicate(timeout=400)
    assert fetch.child.returncode == 5, err


@pytest.mark.slow
def test_an_engine_that_hangs_on_is_left(fetch: Fetch) -> None:
    stopped = time.monotonic()
    fetch.engine.daemon.send_signal(signal.SIGSTOP)
    out, err = fetch.child.communicate(timeout=400)
    assert time.monotonic() - stopped > 100
    done = subprocess.CompletedProcess(fetch.child.args, fetch.child.returncode, out, err)
    line = "error: docker://train-1 may run on: the Docker Engine does not answer"
    assert error_line(done).startswith(line)
    assert "`invoke fetch --job train-1` goes on" in err
    assert fetch.child.returncode == 3
    assert json.loads((fetch.directory / "run.json").read_text())["phase"] == "running"

    fetch.engine.daemon.send_signal(signal.SIGCONT)
    assert "running" in fetch.invoked.run("status", "--job", "train-1").stdout
    fetch.engine.docker("kill", "train-1")
    assert fetch.invoked.run("fetch", "--job", "train-1").returncode == 5
