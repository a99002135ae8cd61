"""What profile.py sees of nsys, as real ones were seen to behave (tests/live/test_nsys_cpu.py).

`nsys profile --name=value… COMMAND…` runs the command in a session of its own with umask 0, copies
what it prints into the report, hands the first SIGINT or SIGTERM on to it, gives its report up at
the second, and exits with its exit code. The report here is JSON: its own words, the environment
and the output. `--fake=WORD` asks for a fault.

`--session-new=NAME` makes a session, whose recording `nsys stop --session=NAME` ends: the report is
written, and the program runs on. `--start-later=true` and `nsys start` begin one later. The script
that starts this answers `nsys sessions list` (wrapper.py). The first word of all calls is the
folder for the sessions.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

HOLD = (
    "import sys, time; file = open(sys.argv[2], 'wb', 0); file.write(b'recorded'); time.sleep(60)"
)


def lose_agent(stream: Path) -> None:
    """An agent that ends before it made a report of its stream, which profile.py has seen."""
    agent = subprocess.Popen([sys.executable, "-c", HOLD, "--start-agent", str(stream)])
    while not is_open(os.getppid(), stream):
        time.sleep(0.05)
    agent.kill()
    agent.wait()


def lose_agent_before_program(folder: Path, times: int) -> bool:
    """Whether this is one of the first calls: their agents are lost before the program begins.

    The agent is a daemon named nsys, which nsys does not wait for.
    """
    marks = folder / "agents-were-lost"
    lost = len(marks.read_bytes()) if marks.exists() else 0
    if lost == times:
        return False
    marks.write_bytes(b"x" * (lost + 1))
    agent = os.fork()
    if agent == 0:
        os.setsid()
        Path("/proc/self/comm").write_text("nsys")
        os._exit(0)
    os.waitid(os.P_PID, agent, os.WEXITED | os.WNOWAIT)
    return True


def is_open(pid: int, path: Path) -> bool:
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if link.readlink() == path:
                return True
    return False


def copy_output(source: IO[bytes], number: int, copied: list[bytes]) -> threading.Thread:
    """Copy a pipe of the program to our descriptor `number`, and keep what came."""

    def copy() -> None:
        while chunk := os.read(source.fileno(), 1 << 16):
            copied.append(chunk)
            os.write(number, chunk)

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


def write_report(path: str, record: Mapping[str, object]) -> None:
    Path(path.replace("%%", "%") + ".nsys-rep").write_text(json.dumps(record))


def answer_session(words: list[str], sessions: Path) -> int:
    """`nsys start` and `nsys stop` with `--session=NAME`."""
    options = dict(word.partition("=")[::2] for word in words[1:])
    file = sessions / options["--session"]
    session = json.loads(file.read_text())
    if session["fault"] == f"{words[0]}-killed":
        file.write_text(json.dumps({**session, "fault": ""}))
        os.kill(os.getpid(), signal.SIGKILL)
    if words[0] == "start":
        # The first report has the name that `nsys profile` got.
        output = (
            session["output"] if session["state"] == "DelayedCollection" else options["--output"]
        )
        file.write_text(json.dumps({**session, "state": "Collection", "output": output}))
        return 0
    if session["fault"] == "unstoppable":
        print("Connection to Agent lost.")
        return 1
    if session["fault"] == "slow":
        (sessions.parent / "stopping").touch()
        while not (sessions.parent / "go").exists():
            time.sleep(0.02)
    report = Path(session["output"].replace("%%", "%") + ".nsys-rep")
    if session["fault"] == "emptied":  # the agent was killed while its importer ran
        report.touch()
    elif session["fault"] == "streaming":  # the importer was killed
        report.with_suffix(".qdstrm").write_text("recorded")
    elif session["fault"] != "reportless":
        write_report(session["output"], {"words": words})
    file.write_text(json.dumps({**session, "state": "Launched"}))
    return 0


def open_session(options: dict[str, str], sessions: Path) -> Path | None:
    if "--session-new" not in options:
        return None
    sessions.mkdir(exist_ok=True)
    file = sessions / options["--session-new"]
    state = "DelayedCollection" if options.get("--start-later") == "true" else "Collection"
    session = {"state": state, "output": options["--output"]}
    file.write_text(json.dumps({**session, "fault": options.get("--fake", "")}))
    return file


def has_stopped(session: Path | None) -> bool:
    return session is not None and json.loads(session.read_text())["state"] != "Collection"


class Program:
    """The command in a session of its own. What it prints is copied, and kept in `output`."""

    def __init__(self, command: list[str]) -> None:
        self.output: list[bytes] = []
        self.signals = 0
        pipe = subprocess.PIPE
        self._process = process = subprocess.Popen(
            command, start_new_session=True, umask=0, stdout=pipe, stderr=pipe
        )
        assert process.stdout is not None
        assert process.stderr is not None
        pipes = ((process.stdout, 1), (process.stderr, 2))
        self._copies = [copy_output(source, number, self.output) for source, number in pipes]
        signal.signal(signal.SIGINT, self._hand_on)
        signal.signal(signal.SIGTERM, self._hand_on)

    def _hand_on(self, signum: int, _frame: object) -> None:
        self.signals += 1
        if self._process.poll() is None:
            self._process.send_signal(signum)

    def wait(self, duration: str | None) -> int:
        """Wait for the program's end, or end it after so many seconds. Return its exit code."""
        if duration is not None:
            time.sleep(float(duration))
            self._process.terminate()
        code = self._process.wait()
        for copy in self._copies:
            copy.join(0.2)  # a child of the program may hold the pipe open
        time.sleep(0.2)
        return code


def fail_early(options: Mapping[str, str]) -> int | None:
    """Return the exit code of a call that ends before the program begins, None for others."""
    folder, (kind, _, code) = Path(options["--output"]).parent, options["--fake"].partition(":")
    if kind == "lost":
        lose_agent(folder / "nsys-report-1a2b.qdstrm")
    times = {"agent": 1, "agents": 2}.get(kind, 0)
    if times and lose_agent_before_program(folder, times):
        return int(code)
    if kind == "usage":
        print("Illegal --trace argument 'x'", file=sys.stderr)
        return 1
    return None


def run(words: list[str], sessions: Path) -> int:
    if words[0] in ("start", "stop"):
        return answer_session(words, sessions)
    assert words[0] == "profile", words
    count = next(n for n, word in enumerate(words[1:], 1) if not word.startswith("-"))
    options = dict(word.partition("=")[::2] for word in words[1:count])
    kind = options.get("--fake", "").partition(":")[0]
    if kind and (failed := fail_early(options)) is not None:
        return failed
    session = open_session(options, sessions)
    program = Program(words[count:])
    code = program.wait(options.get("--duration"))
    is_whole = program.signals < 2 and kind in ("", "both", "agent", "unstoppable")
    if is_whole and not has_stopped(session):
        output = b"".join(program.output).decode(errors="replace")
        record = {"words": words, "environment": dict(os.environ), "output": output}
        place = json.loads(session.read_text())["output"] if session else options["--output"]
        write_report(place, record)
    if session is not None:
        session.unlink()
    if kind in ("stream", "both"):
        Path(options["--output"] + ".qdstrm").write_text("recorded")
    return 128 - code if code < 0 else code


def start() -> None:
    Path("/proc/self/comm").write_text("nsys")
    folder, *words = sys.argv[1:]
    raise SystemExit(run(words, Path(folder)))
