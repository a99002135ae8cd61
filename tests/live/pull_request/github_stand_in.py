"""A stand-in of GitHub's API on loopback: artifacts, pull requests and comments."""

import io
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPOSITORY, TOKEN = "team/code", "secret-token"
BOT = "github-actions[bot]"


@dataclass
class GitHub:
    """`heads`: the head's SHA of each open pull request. `comments`: those of each, as the API has
    them. `calls`: what was asked. `url` is the API's.
    """

    artifact: bytes = b""
    heads: Mapping[int, str] = field(default_factory=dict)
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    tokens_elsewhere: list[str] = field(default_factory=list)
    url: str = ""

    def comment(self, pull: int, login: str, body: str) -> None:
        entry = {"id": 100 * pull + 7, "user": {"login": login}, "body": body}
        self.comments.setdefault(pull, []).append(entry)

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Any:
        match [method, *path.strip("/").split("/")]:
            case ["GET", "repos", "team", "code", "actions", "runs", "77", "artifacts"]:
                name = query["name"]
                rows = [{"id": 5, "name": name, "expired": False}] if self.artifact else []
                return {"artifacts": [*rows, {"id": 9, "name": name, "expired": True}]}
            case ["GET", "repos", "team", "code", "pulls"]:
                pulls = [{"number": n, "head": {"sha": sha}} for n, sha in self.heads.items()]
                return take_page(pulls, query)
            case ["GET", "repos", "team", "code", "issues", number, "comments"]:
                return take_page(self.comments.get(int(number), []), query)
            case ["POST", "repos", "team", "code", "issues", number, "comments"]:
                self.comment(int(number), BOT, body["body"])
                return {}
            case ["PATCH", "repos", "team", "code", "issues", "comments", number]:
                rows = [row for rows in self.comments.values() for row in rows]
                next(row for row in rows if row["id"] == int(number))["body"] = body["body"]
                return {}
        return None


def take_page(entries: list[Any], query: Mapping[str, str]) -> list[Any]:
    size, page = int(query["per_page"]), int(query["page"])
    return entries[size * (page - 1) : size * page]


def pack(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip file, as an artifact is downloaded."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


class Handler(BaseHTTPRequestHandler):
    """Answers for a GitHub. An artifact is behind a redirection, to a server of storage."""

    def __init__(self, state: GitHub, *arguments: Any) -> None:
        self.state = state
        super().__init__(*arguments)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def reply(self, code: int, data: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path == "/blob":
            self.state.tokens_elsewhere.append(self.headers.get("Authorization", ""))
            self.reply(200, self.state.artifact)
            return
        self.state.calls.append(f"{self.command} {address.path}")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.reply(401, b"{}")
            return
        if address.path == f"/repos/{REPOSITORY}/actions/artifacts/5/zip":
            self.reply(302, b"", Location=f"http://localhost:{self.server.server_port}/blob")  # type: ignore[attr-defined]
            return
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        answer = self.state.answer(self.command, address.path, query, body)
        self.reply(404 if answer is None else 200, json.dumps(answer).encode())

    do_POST = do_PATCH = do_GET


@contextmanager
def serve_github(state: GitHub) -> Iterator[GitHub]:
    """Serve the API for the body."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, state))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
