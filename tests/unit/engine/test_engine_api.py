"""The Docker SDK's connections to an engine, here a small HTTP server on a Unix socket."""

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine import api

VERSION = {"ApiVersion": "1.44", "Version": "26.1.5"}
REFUSAL = {"error": "denied: no such repository"}


class Engine(socketserver.ThreadingUnixStreamServer):
    """An engine that refuses a push in the middle of its stream of events."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Answers)
        self.closed = threading.Event()
        """The client has closed the connection of its push."""


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "client"

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._begin(json.dumps(VERSION).encode(), "Content-Length")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        event = json.dumps(REFUSAL).encode() + b"\n"
        self._begin(b"%x\r\n%s\r\n" % (len(event), event), "Transfer-Encoding")
        self.connection.settimeout(60)
        assert isinstance(self.server, Engine)
        if not self.rfile.read(1):
            self.server.closed.set()
            self.close_connection = True

    def _begin(self, body: bytes, header: str) -> None:
        self.send_response(200)
        self.send_header(header, str(len(body)) if header == "Content-Length" else "chunked")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    with Engine(tmp_path / "engine.sock") as server:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_refused_push_closes_its_connection(engine: Engine) -> None:
    """The SDK left it to the garbage collector, which warns of an unclosed socket."""
    ref = ImageRef(registry="127.0.0.1:1", name="x", tag="v1")
    with pytest.raises(api.EngineRefusal, match="denied: no such repository") as refusal:
        list(api.push_layers(ref, None))
    assert engine.closed.wait(30)
    assert refusal.tb is not None  # the frames of the push are still there: nothing was collected
