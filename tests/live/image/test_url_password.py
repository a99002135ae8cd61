"""A password in a URL setting is used by the build, and stays nowhere: neither in the image nor in
its history, the builder's cache records, the log, or the Dockerfile."""

import base64
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from gpu_profile import process
from gpu_profile.command import Command, make_command
from gpu_profile.image import build
from gpu_profile.image.downloads import Downloads
from gpu_profile.settings.settings import load_settings
from tests.live.image import stand_in
from tests.live.image.builds import OF_EFA, PIP, PLAIN, ROOT, decide
from tests.live.image.wheel_index import make_index

pytestmark = [pytest.mark.image, pytest.mark.docker]
NAME = "gpu-profile-test-password"
USER, PASSWORD = "robot", "planted hunter2#7"


class _Guarded(http.server.SimpleHTTPRequestHandler):
    """Files for one user alone."""

    def do_GET(self) -> None:
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") == f"Basic {login}":
            super().do_GET()
            return
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="files"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A directory, and its address with user and password."""
    directory = tmp_path / "served"
    directory.mkdir()
    handler = functools.partial(_Guarded, directory=str(directory))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield directory, f"http://{USER}:{quote(PASSWORD)}@127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def build_with(
    directory: Path, downloads: Downloads, tools: tuple[str, ...], *words: str
) -> tuple[Command, str]:
    """The build's command, and all that it printed."""
    chosen = load_settings(directory / ".env", {}, (*PLAIN, f"IMAGE={NAME}", *words))
    decided = decide(chosen, tools)
    command = build.make_build_command(
        decided, downloads, build.BuildxOptions(root=ROOT, plain=True)
    )
    done = process.run(command)
    assert done.returncode == 0, done.stderr[-2000:]
    return command, done.stdout + done.stderr


def ask_docker(*words: str) -> str:
    """What docker lists; asked again where another test removed an image or container meanwhile."""
    results = (process.run(make_command("docker", *words)) for _ in range(20))
    return next(result.stdout for result in results if not result.returncode)


def traces(command: Command, log: str, tmp_path: Path) -> dict[str, str]:
    """What stays of a build, by its name."""
    archive = tmp_path / "image.tar"
    process.run(Command(argv=("docker", "save", NAME), stdout_file=archive))
    docker = (
        ("history", "--no-trunc", NAME),
        ("image", "inspect", NAME),
        ("buildx", "du", "--verbose"),
        ("system", "df", "--verbose"),
    )
    listed = {" ".join(words): ask_docker(*words) for words in docker}
    return {
        "argv": " ".join(command.argv),
        "Dockerfile": command.stdin,
        "log": log,
        "layers": archive.read_bytes().decode("latin-1"),
        **listed,
    }


@pytest.mark.parametrize("component", ["efa", "torch"])
def test_a_planted_password_stays_nowhere(
    embedded: None, served: tuple[Path, str], tmp_path: Path, component: str
) -> None:
    """curl fetches EFA's archive, key and signature; pip torch's wheels."""
    directory, url = served
    if component == "efa":
        (tmp_path / "efa").mkdir()
        archive = stand_in.make(tmp_path / "efa", "1.50.0")
        for file in archive.directory.iterdir():
            file.rename(directory / file.name)
        pins = (f"EFA_SHA256={archive.sha256}", f"EFA_FINGERPRINT={archive.fingerprint}")
        words: tuple[str, ...] = ("INSTALL_EFA=true", "EFA_VERSION=1.50.0", f"EFA_URL={url}", *pins)
    else:
        make_index(directory, {"torch": "1.0", "helper": "1.0", "numpy": "1.0", "nvtx": "9.0"})
        words = ("INSTALL_TORCH=cpu", f"TORCH_URL={url}", "NVTX_VERSION=9.0")
    options = f"BUILD_OPTS=--network=host --target={component} --no-cache-filter={component}"
    downloads = Downloads(pip_conf=f"[global]\nindex-url = {url}\n")
    tools = OF_EFA if component == "efa" else PIP
    command, log = build_with(tmp_path, downloads, tools, *words, options)
    left = traces(command, log, tmp_path)
    assert all(left.values()), [name for name, text in left.items() if not text]
    for spelling in (PASSWORD, quote(PASSWORD), "hunter2", base64.b64encode(PASSWORD.encode())):
        word = spelling if isinstance(spelling, str) else spelling.decode()
        assert [name for name, text in left.items() if word in text] == []
