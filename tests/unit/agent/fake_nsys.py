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


def run(words: list[str], sessions: Path) -> int:
    if words[0] in ("start", "stop"):
        return answer_session(words, sessions)
    assert words[0] == "profile", words
    count = next(n for n, word in enumerate(words[1:], 1) if not word.startswith("-"))
    options = dict(word.partition("=")[::2] for word in words[1:count])
    if options.get("--fake") == "lost":
        lose_agent(Path(options["--output"]).parent / "nsys-report-1a2b.qdstrm")
    kind, _, exit_code = options.get("--fake", "").partition(":")
    times = {"agent": 1, "agents": 2}.get(kind, 0)
    if times and lose_agent_before_program(Path(options["--output"]).parent, times):
        return int(exit_code)
    if options.get("--fake") == "usage":
        print("Illegal --trace argument 'x'", file=sys.stderr)
        return 1
    session = open_session(options, sessions)
    target = subprocess.Popen(
        words[count:],
        start_new_session=True,
        umask=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert target.stdout is not None
    assert target.stderr is not None
    copied: list[bytes] = []
    copies = [copy_output(target.stdout, 1, copied), copy_output(target.stderr, 2, copied)]
    signals = 0

    def hand_on(signum: int, _frame: object) -> None:
        nonlocal signals
        signals += 1
        if target.poll() is None:
            target.send_signal(signum)

    signal.signal(signal.SIGINT, hand_on)
    signal.signal(signal.SIGTERM, hand_on)
    if "--duration" in options:
        time.sleep(float(options["--duration"]))
        target.terminate()
    code = target.wait()
    for copy in copies:
        copy.join(0.2)  # a child of the program may hold the pipe open
    time.sleep(0.2)
    if signals < 2 and kind in ("", "both", "agent", "unstoppable") and not has_stopped(session):
        output = b"".join(copied).decode(errors="replace")
        record = {"words": words, "environment": dict(os.environ), "output": output}
        output = json.loads(session.read_text())["output"] if session else options["--output"]
        write_report(output, record)
    if session is not None:
        session.unlink()
    if options.get("--fake") in ("stream", "both"):
        Path(options["--output"] + ".qdstrm").write_text("recorded")
    return 128 - code if code < 0 else code


def start() -> None:
    Path("/proc/self/comm").write_text("nsys")
    folder, *words = sys.argv[1:]
    raise SystemExit(run(words, Path(folder)))
