"""upload_parts.py beside a job: parts arrive whole, and a URL is printed nowhere."""

import io
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import upload_parts

REPORT = "rank0.node.nsys-rep"
SECRET = "X-Amz-Signature=1f"


class Bucket(BaseHTTPRequestHandler):
    """Takes what is put, after the answers of `refusals`, such as 503."""

    parts: ClassVar[dict[str, bytes]] = {}
    refusals: ClassVar[list[int]] = []

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        code = self.refusals.pop(0) if self.refusals else 200
        if code == 200:
            self.parts[self.path.partition("?")[0]] = body
        self.send_response(code)
        self.send_header("ETag", f'"{len(body)}"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Bucket.parts.clear()
    Bucket.refusals.clear()
    monkeypatch.setattr(upload_parts, "_PAUSE_S", 0)
    with HTTPServer(("127.0.0.1", 0), Bucket) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def upload(monkeypatch: pytest.MonkeyPatch, folder: Path, *parts: dict[str, Any]) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"ca": "", "parts": parts})))
    return upload_parts.main([str(folder)])


def part(address: str, number: int, offset: int, size: int, file: str = REPORT) -> dict[str, Any]:
    return {
        "file": file,
        "offset": offset,
        "size": size,
        "url": f"{address}/{number}?{SECRET}",
    }


def test_each_part_arrives_also_at_a_bucket_that_asks_for_patience(
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / REPORT).write_bytes(bytes(range(200)))
    Bucket.refusals += [503, 500]
    parts = (part(address, 1, 0, 120), part(address, 2, 120, 80))
    assert upload(monkeypatch, tmp_path, *parts) == 0
    assert Bucket.parts == {"/1": bytes(range(120)), "/2": bytes(range(120, 200))}
    assert json.loads(capsys.readouterr().out) == {"etags": ['"120"', '"80"']}


@pytest.mark.parametrize("case", ["refused", "away", "link", "gone", "elsewhere"])
def test_what_is_not_sent_is_one_line_without_the_url(
    case: str,
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "secret").write_text("of the machine")
    (tmp_path / "wd").mkdir()
    if case == "link":
        (tmp_path / "wd" / REPORT).symlink_to(tmp_path / "secret")
    elif case != "gone":
        (tmp_path / "wd" / REPORT).write_bytes(b"12")
    Bucket.refusals += [403] * (case == "refused")
    where = "http://127.0.0.1:9" if case == "away" else address
    file = "../secret" if case == "elsewhere" else REPORT
    assert upload(monkeypatch, tmp_path / "wd", part(where, 1, 0, 2, file)) == 3
    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines()), SECRET in said.err) == ("", 1, False)
    assert Bucket.parts == {}
