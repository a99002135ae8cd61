"""A real registry with passwords on loopback, and moto's server in the place of ECR's API.

Debian and Ubuntu have both parts of the registry: docker-registry and apache2-utils. The token
that moto's get_authorization_token gives out is the registry's password, so that a push that
arrives has gone through both.
"""

import base64
import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from gpu_profile.command import Result
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine.api import LayerEvent
from gpu_profile.errors import RegistryError
from gpu_profile.registry import address as registry_address
from gpu_profile.registry import push
from tests.invoked import invoke as invoke_verb

ACCOUNT, REGION = "123456789012", "us-east-1"
ECR = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
PASSWORD = f"{ACCOUNT}-auth-token"
"""What moto's ECR gives to user AWS."""
Refused = Callable[..., str]
Invoke = Callable[..., Result]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Server:
    """One program on a loopback port, started and ended by its id."""

    argv: tuple[str, ...]
    port: int
    log: Path
    child: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self.child is not None and self.child.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(self.argv, stdout=log, stderr=log)
        for _ in range(200):
            assert self.child.poll() is None, self.log.read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.1)
        pytest.fail(f"{self.argv[0]} does not listen: {self.log.read_text()}")

    def stop(self) -> None:
        if self.child:
            self.child.kill()
            self.child.wait()


@dataclass
class Registry(Server):
    directory: Path = Path()

    def accept(self, username: str, password: str) -> None:
        """The only user from now on."""
        words = ("htpasswd", "-Bbn", username, password)
        line = subprocess.run(words, check=True, capture_output=True).stdout
        (self.directory / "htpasswd").write_bytes(line)

    def ref(self, name: str, tag: str = "v1") -> ImageRef:
        return ImageRef(registry=self.address, name=name, tag=tag)


@pytest.fixture(scope="session")
def registry_programs(docker: None, require: Callable[[str, object], None]) -> None:
    for program, package in (("docker-registry", "docker-registry"), ("htpasswd", "apache2-utils")):
        missing = "" if shutil.which(program) else f"{program} is not installed (apt: {package})"
        require("registry", missing)


@pytest.fixture
def real_registry(registry_programs: None, tmp_path: Path) -> Iterator[Registry]:
    port = free_port()
    config = tmp_path / "registry.yml"
    config.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/blobs}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
        f"auth: {{htpasswd: {{realm: test, path: {tmp_path}/htpasswd}}}}\n"
    )
    argv = ("docker-registry", "serve", str(config))
    server = Registry(argv=argv, port=port, log=tmp_path / "registry.log", directory=tmp_path)
    server.accept("AWS", PASSWORD)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """moto's server, which takes a second of a CPU to start."""
    pytest.importorskip("moto.server", reason="moto's server is a development requirement")
    port = free_port()
    program = "import sys; from moto.server import main; main(sys.argv[1:])"
    argv = (sys.executable, "-W", "ignore", "-c", program, "-H", "127.0.0.1", "-p", str(port))
    server = Server(argv=argv, port=port, log=tmp_path_factory.mktemp("moto") / "log")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def ecr_api(moto: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """moto's server without a repository, and an environment that sends boto3 there."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", moto.port)) as connection:
        connection.request("POST", "/moto-api/reset")
        assert connection.getresponse().status == 200
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{moto.address}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    return moto


@pytest.fixture
def where(real_registry: Registry, ecr_api: Server) -> registry_address.Registry:
    """ECR, as a user would name it who reaches it under another address."""
    return registry_address.parse_registry(real_registry.address, ecr_registry=ECR)


@pytest.fixture
def ecr() -> Any:
    return boto3.client("ecr", region_name=REGION)


def tell_ecr(ecr: Any, ref: ImageRef, digest: str) -> None:
    """moto does not see what the registry gets: ECR itself would know of it."""
    media_type = "application/vnd.docker.distribution.manifest.v2+json"
    ecr.put_image(
        repositoryName=ref.name,
        imageTag=ref.tag,
        imageManifest=json.dumps({"schemaVersion": 2, "mediaType": media_type, "layers": []}),
        imageDigest=digest,
    )


@pytest.fixture
def make_image(docker: None, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """`make_image(ref, megabytes=1)`: a local image of random bytes, removed afterwards."""
    made: list[str] = []

    def make(ref: ImageRef, megabytes: int = 1) -> None:
        context = tmp_path / f"context{len(made)}"
        context.mkdir()
        (context / "bytes").write_bytes(os.urandom(megabytes << 20))
        (context / "more").write_bytes(os.urandom(1 << 20))
        (context / "Dockerfile").write_text("FROM scratch\nCOPY bytes /\nCOPY more /\n")
        words = ("docker", "build", "--quiet", "--tag", str(ref), str(context))
        subprocess.run(words, check=True, capture_output=True)
        made.append(str(ref))

    yield make
    for name in made:
        subprocess.run(("docker", "rmi", "--force", name), check=False, capture_output=True)


def stored_digest(server: Registry, name: str, tag: str = "v1") -> str:
    """What the registry itself says of a tag; empty where it has none."""
    word = base64.b64encode(f"AWS:{PASSWORD}".encode()).decode()
    headers = {
        "Authorization": f"Basic {word}",
        "Accept": "application/vnd.docker.distribution.manifest.v2+json",
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    with contextlib.closing(connection):
        connection.request("HEAD", f"/v2/{name}/manifests/{tag}", headers=headers)
        return connection.getresponse().headers.get("Docker-Content-Digest", "")


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """The one line that a failing push says; checks all that holds for every one of them."""
    records = tmp_path / "records" / "pushed.json"

    def check(
        ref: ImageRef, where: registry_address.Registry, show: Callable[[LayerEvent], None] = print
    ) -> str:
        with pytest.raises(RegistryError) as caught:
            push.publish_image(
                ref, where, records, show=show, upload=push.Upload(sleep=lambda _: None)
            )
        line = str(caught.value)
        assert caught.value.exit_code == 7
        assert "\n" not in line
        assert PASSWORD not in line
        assert not records.parent.exists()
        return line

    return check


@pytest.fixture
def invoke(where: registry_address.Registry, real_registry: Registry, tmp_path: Path) -> Invoke:
    """Run `invoke WORDS` in a directory of its own, with these settings on top."""
    directory = tmp_path / "work"
    directory.mkdir()
    (directory / ".env").write_text(f"REGISTRY={real_registry.address}\nECR_REGISTRY={ECR}\n")

    def run(*words: str, **more: str) -> Result:
        env = {"VERSION": "v1", "DOCKER_CONFIG": str(tmp_path / "none"), **more}
        done = invoke_verb(*words, directory=directory, **env)
        assert PASSWORD not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run
