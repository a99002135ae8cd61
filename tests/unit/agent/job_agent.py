"""job.py as a program, with a fake nsys."""

import json
import time
from pathlib import Path
from typing import Any

import job_state

from gpu_profile.launchers.agent.job_directory import AGENT
from tests.forked import run_python

FAKE_NSYS = """#!/bin/sh
[ "$*" != --version ] || exec echo 'NVIDIA Nsight Systems version 2025.1.1.1'
exec python3 -I -S -c '
import signal, subprocess, sys
open("/proc/self/comm", "w").write("nsys")
out = next(w for w in sys.argv if w.startswith("--output="))[9:]
command = [w for w in sys.argv[2:] if not w.startswith("--")]
child = subprocess.Popen(command)
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
code = child.wait()
open(out + ".nsys-rep", "w").write("report")
sys.exit(128 - code if code < 0 else code)
' "$@"
"""
"""Records as nsys does: runs the command, then writes the report that --output names."""


def agent(*words: str, stdin: str = "", cwd: Path | None = None) -> tuple[int, str, str]:
    """Run job.py in a child of the fork server: a new Python takes 0.07 s of CPU to import it."""
    done = run_python((str(AGENT / "job.py"), *words), cwd or Path.cwd(), {}, stdin=stdin)
    return done.returncode, done.stdout, done.stderr


def spec(nsys: Path, *command: str, **more: object) -> str:
    arguments = ["--ranks=all", "--output=.", "--trace=nvtx", "--", *command]
    return json.dumps({"arguments": arguments, "nsys": str(nsys), **more})


def status(job: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(agent("status", str(job))[1])
    return answer


def ended(job: Path) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    # Not by the verb: its process takes 20 ms of CPU.
    while job_state.current(job)["state"] in {"starting", "running"}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return status(job)


def fake_nsys(directory: Path) -> Path:
    path = directory / "nsys"
    path.write_text(FAKE_NSYS)
    path.chmod(0o755)
    return path
