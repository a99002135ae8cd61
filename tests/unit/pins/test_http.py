"""Texts, checksums and git's refs from a real server on loopback."""

import base64
import functools
import hashlib
import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_profile.errors import ToolError
from gpu_profile.pins import http as download

GIT_ENV = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "HOME": "/nonexistent",
    "PATH": "/usr/bin:/bin:/usr/local/bin",
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The URL of tmp_path."""
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def git(directory: Path, *words: str) -> str:
    argv = ("git", "-C", str(directory), *words)
    done = subprocess.run(argv, env=GIT_ENV, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a plain tag, an annotated one, and a branch."""
    path = tmp_path / "tests.git"
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch=main", ".")
    git(path, "commit", "--quiet", "--allow-empty", "--message=one")
    git(path, "tag", "v1.0")
    git(path, "commit", "--quiet", "--allow-empty", "--message=two")
    git(path, "tag", "--annotate", "--message=two", "v2.19.6-1")
    return path


def test_text_and_sha256(served: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"ab" * 1_000_000)
    fetch = download.make_fetch()
    expected = hashlib.sha256(b"ab" * 1_000_000).hexdigest()
    assert download.fetch_sha256(fetch, f"{served}/file") == expected
    assert download.fetch_sha256(fetch, str(tmp_path / "file")) == expected
    assert download.fetch_text(fetch, f"{served}/file")[:4] == "abab"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("{served}/nothing", "cannot be read: HTTP Error 404|cannot be read: File not found"),
        ("http://127.0.0.1:9/x", "cannot be read: .*refused"),
        ("ftp://example.com/x", "neither http nor https"),
        ("file:///etc/passwd", "neither http nor https"),
        ("/nonexistent/file", "cannot be read: .*No such file"),
    ],
)
def test_what_cannot_be_read(url: str, said: str, served: str) -> None:
    with pytest.raises(ToolError, match=said):
        download.fetch_text(download.make_fetch(), url.format(served=served))


def expected_refs(repository: Path) -> dict[str, str]:
    return {
        "refs/tags/v1.0": git(repository, "rev-parse", "v1.0^{commit}"),
        "refs/tags/v2.19.6-1": git(repository, "rev-parse", "v2.19.6-1^{commit}"),
        "refs/heads/main": git(repository, "rev-parse", "main"),
    }


def test_refs_of_a_dumb_server(served: str, tmp_path: Path, repository: Path) -> None:
    git(repository, "update-server-info")
    for url in (f"{served}/tests.git/.git", f"{served}/tests.git/.git/"):
        refs = download.git_refs(download.make_fetch(), url)
        assert {k: v for k, v in refs.items() if k != "HEAD"} == expected_refs(repository)


def test_refs_of_a_smart_server(repository: Path) -> None:
    """What git itself advertises over HTTP, byte for byte."""
    argv = ("git", "upload-pack", "--http-backend-info-refs", "--strict", str(repository / ".git"))
    said = subprocess.run(argv, env=GIT_ENV, check=True, capture_output=True).stdout
    service = b"001e# service=git-upload-pack\n0000"
    path = repository / "info" / "refs?service=git-upload-pack"
    path.parent.mkdir()
    path.write_bytes(service + said)
    refs = download.git_refs(download.make_fetch(), str(repository))
    assert {k: v for k, v in refs.items() if k != "HEAD"} == expected_refs(repository)


def test_a_page_that_is_no_repository(served: str, tmp_path: Path) -> None:
    (tmp_path / "info").mkdir()
    (tmp_path / "info" / "refs").write_text("<html>Welcome</html>")
    with pytest.raises(ToolError, match="answers, but not as a git repository"):
        download.git_refs(download.make_fetch(), served)


class _WithPassword(http.server.BaseHTTPRequestHandler):
    """Answers a user and password alone, and says which."""

    def do_GET(self) -> None:
        login = self.headers.get("Authorization", "")
        self.send_response(200 if login else 401)
        self.end_headers()
        self.wfile.write(login.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_password_of_a_url_reaches_the_server_and_no_error() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _WithPassword)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"127.0.0.1:{server.server_port}"
    answer = download.fetch_text(download.make_fetch(), f"http://me:hunter%402@{host}/x")
    assert answer == "Basic " + base64.b64encode(b"me:hunter@2").decode()
    server.shutdown()
    server.server_close()
    with pytest.raises(ToolError) as refused:
        download.fetch_text(download.make_fetch(), f"http://me:hunter2@{host}/x")
    assert f"http://{host}/x cannot be read" in str(refused.value)
    assert "hunter2" not in str(refused.value)
