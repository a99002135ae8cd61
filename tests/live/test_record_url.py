"""`record --url` on a stand-in for a server with /start_profile, under a stand-in for nsys.

Real ones need a GPU: nsys' capture range is cudaProfilerApi, which the server calls.
"""

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.nsys.help import TYPICAL_HELP
from tests.invoked import INVOKE
from tests.unit.analysis.scenarios import Training

SERVER = """
import http.server, json, pathlib, sys
class Handler(http.server.BaseHTTPRequestHandler):
    number, asked = 0, None
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = self.path in ("/start_profile", "/stop_profile") and sys.argv[2] == "profiler"
        if found and self.path == "/start_profile":
            Handler.asked = body["activities"]
        elif found and Handler.asked == ["CUDA_PROFILER"]:
            Handler.number += 1
            pathlib.Path(sys.argv[3] + f".{Handler.number}.nsys-rep").write_text("recorded")
        self.send_response(200 if found else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
NSYS = """#!/bin/sh
# Runs the command with the path of its report, which the server writes; exports a synthetic one.
case $1 in
  export) cp SQLITE "$(printf '%s\\n' "$@" | sed -n 's/^--output=//p')"; exit ;;
  profile) ;;
  *) exit 0 ;;
esac
shift
[ "$1" != --help ] || { cat HELP; exit; }
while [ "${1#-}" != "$1" ]; do
  case $1 in --output=*) output=${1#--output=} ;; --capture-range-end=repeat) repeat=1 ;; esac
  shift
done
[ "$repeat" ] || exit 9
exec "$@" "$output"
"""


@pytest.fixture
def nsys(tmp_path: Path) -> Path:
    Training(ranks=1, steps=12).record().save(tmp_path / "synthetic.sqlite")
    (tmp_path / "help").write_text(TYPICAL_HELP)
    script = tmp_path / "nsys"
    text = NSYS.replace("SQLITE", str(tmp_path / "synthetic.sqlite"))
    script.write_text(text.replace("HELP", str(tmp_path / "help")))
    script.chmod(0o755)
    return script


def invoke(directory: Path, *words: str) -> Result:
    (directory / "runs").mkdir(mode=0o700, exist_ok=True)
    env = {"REPORT_DIR": str(directory / "runs"), "NSYS": str(directory / "nsys")}
    return process.run(Command(argv=(*INVOKE, *words), env=env))


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def port(tmp_path: Path, nsys: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    """A server that runs as a job; the test's parameter says whether it has the endpoint."""
    number = find_port()
    program = (sys.executable, "-c", SERVER, str(number), request.param)
    words = ("--on=host", "--record=endpoint", "--trace=cuda", "--gpus=0", "--name=web")
    started = invoke(tmp_path, "profile", *words, "--detach", "--", *program)
    assert started.returncode == 0, started.stderr
    while not is_open(number):
        time.sleep(0.05)
    yield number
    invoke(tmp_path, "stop", "--job=web")


@pytest.mark.parametrize("port", ["profiler"], indirect=True)
def test_a_server_records_when_it_is_asked(tmp_path: Path, port: int) -> None:
    for window in (1, 2):
        words = ("--job=web", f"--url=http://127.0.0.1:{port}/", "--seconds=0.2")
        done = invoke(tmp_path, "record", *words)
        assert done.returncode == 0, done.stderr
        assert f".{window}.nsys-rep: " in done.stdout
    assert invoke(tmp_path, "status", "--job=web").stdout == "running\n"
    trend = invoke(tmp_path, "reports", "--trend", "--run=web", "--format=csv")
    assert len(trend.stdout.splitlines()) == 3, trend.stderr


@pytest.mark.parametrize("port", ["nothing"], indirect=True)
def test_a_server_without_the_endpoint_and_one_that_is_not_there(tmp_path: Path, port: int) -> None:
    for url, code, said in (
        (
            f"http://127.0.0.1:{port}",
            3,
            "answers 404 Not Found. vLLM has it with --profiler-config",
        ),
        (f"http://127.0.0.1:{find_port()}", 3, "does not answer: [Errno 111] Connection refused"),
        ("127.0.0.1:8000", 2, "is not a plain http address"),
        (f"http://me:secret@127.0.0.1:{port}", 2, "is not a plain http address"),
    ):
        done = invoke(tmp_path, "record", "--job=web", f"--url={url}", "--seconds=1")
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
        assert "secret" not in done.stderr
    many = invoke(tmp_path, "record", "--job=web", "--url=http://x", "--steps=3")
    assert (many.returncode, "Leave out --steps" in many.stderr) == (2, True)
