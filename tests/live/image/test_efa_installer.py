"""EFA's installer path, end to end, against a stand-in archive served from loopback.

What this does not try: AWS's own packages, which need AWS's host.
"""

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from gpu_profile.image.build_log import BuildLog
from tests.image.checks import in_container, last_line
from tests.live.image import stand_in
from tests.live.image.builds import OF_EFA, build, why
from tests.live.image.stand_in import Archive

NAME = "gpu-profile-test-efa"
ONLY_EFA = "BUILD_OPTS=--network=host --target=efa"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def serve() -> Iterator[Callable[[Path], str]]:
    servers = []

    def start(directory: Path) -> str:
        handler = functools.partial(_Quiet, directory=str(directory))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def _build(tmp_path: Path, url: str, archive: Archive, *overrides: str) -> BuildLog | None:
    pins = (f"EFA_SHA256={archive.sha256}", f"EFA_FINGERPRINT={archive.fingerprint}")
    source = ("INSTALL_EFA=true", "EFA_VERSION=1.50.0", f"EFA_URL={url}", *pins)
    tools = OF_EFA if ONLY_EFA in overrides else ()
    return build(tmp_path, NAME, *source, "BUILD_OPTS=--network=host", *overrides, tools=tools)


@pytest.fixture
def archive(
    embedded: None, require: Callable[[str, object], None], tmp_path: Path
) -> Callable[[str], Archive]:
    missing = [tool for tool in ("gpg", "dpkg-deb") if not process.find_program(tool)]
    require("image", missing and f"{' and '.join(missing)} not installed")
    return lambda version: stand_in.make(tmp_path, version)


def test_the_installer_is_verified_run_and_gone(
    archive: Callable[[str], Archive], serve: Callable[[Path], str], tmp_path: Path
) -> None:
    made = archive("1.50.0")
    log = _build(tmp_path, serve(made.directory), made)
    assert log is None, why(log)
    for check in ("05-manifest", "40-efa", "80-no-tools"):
        result = in_container(NAME, f"/test.d/{check}.sh")
        assert result.returncode == 0, last_line(result)
    said = in_container(NAME, "sh", "-c", "mpirun --version; echo $NCCL_NET_PLUGIN")
    assert said.stdout.splitlines() == ["mpirun (Open MPI) 4.1.9", "ofi"]
    process.run(make_command("docker", "image", "rm", NAME))


def test_an_older_installer_gets_the_options_it_knows(
    archive: Callable[[str], Archive], serve: Callable[[Path], str], tmp_path: Path
) -> None:
    made = archive("1.43.0")
    log = _build(tmp_path, serve(made.directory), made, "EFA_VERSION=1.43.0", ONLY_EFA)
    assert log is None, why(log)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (f"EFA_SHA256={'0' * 64}", "checksum mismatch"),
        (f"EFA_FINGERPRINT={'0' * 40}", "is not signed by the key"),
        ("EFA_VERSION=1.49.0", "cannot fetch"),
    ],
)
def test_what_is_not_what_was_pinned_is_refused(
    archive: Callable[[str], Archive],
    serve: Callable[[Path], str],
    tmp_path: Path,
    override: str,
    message: str,
) -> None:
    made = archive("1.50.0")
    log = _build(tmp_path, serve(made.directory), made, override, ONLY_EFA)
    assert log is not None
    assert (log.step, message in str(log.failure(1))) == ("efa", True)
