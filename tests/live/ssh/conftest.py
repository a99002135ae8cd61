"""A real sshd on loopback, and a network before it that can be cut."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.hosts import Invoked
from tests.live.ssh.proxy import Proxy

SSHD = Path(__file__).with_name("sshd.sh")


@dataclass(frozen=True)
class Server:
    directory: Path
    port: int

    @property
    def config(self) -> Path:
        return self.directory / "config"

    def config_through(self, port: int, known_hosts: Path | None = None) -> Path:
        """The client's configuration by another port."""
        text = self.config.read_text().replace(f"Port {self.port}", f"Port {port}")
        known = self.directory / "known_hosts"
        path = self.directory / f"config.{port}.{known_hosts is not None}"
        path.write_text(text.replace(str(known), str(known_hosts or known)))
        return path


def started(
    require: Callable[[str, object], None], directory: Path, *lines: str
) -> Iterator[Server]:
    """An sshd with these lines in its configuration."""
    done = subprocess.run(
        [SSHD, "start", directory, *lines], capture_output=True, text=True, check=False
    )
    require("sshd", done.returncode and (done.stderr.strip() or "it did not start"))
    yield Server(directory, int(done.stdout))
    subprocess.run([SSHD, "stop", directory], check=True)


@pytest.fixture(scope="session")
def sshd(
    require: Callable[[str, object], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    yield from started(require, tmp_path_factory.mktemp("sshd"))


@pytest.fixture
def network(sshd: Server) -> Iterator[Proxy]:
    proxy = Proxy(sshd.port)
    yield proxy
    proxy.close()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """Where runs lie on the other side; a name that a shell would take apart."""
    return tmp_path / "remote; $(touch pwned) runs"


@pytest.fixture
def invoked(tmp_path: Path, nsys: str, sshd: Server, network: Proxy, remote: Path) -> Invoked:
    runs = tmp_path / "runs"
    runs.mkdir()
    settings = {
        "NSYS": nsys,
        "SSH_HOST": "gpu-host",
        "SSH_ARGS": f"-F {sshd.config_through(network.port)}",
        "SSH_DIR": str(remote),
    }
    return Invoked(runs, {**os.environ, **settings})
