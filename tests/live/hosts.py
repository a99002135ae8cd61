"""What the live tests of host, ssh and slurm share: a run from the command line, as users do it."""

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpu_profile.verbs.common import ROOT
from tests.invoked import INVOKE

BEAT = "import os,sys,time\nprint('up', os.environ.get('RANK'), flush=True)\n"
"""A program that says that it runs; add how it ends."""


class Invoked:
    """`invoke` in a directory of its own, with settings from the environment."""

    def __init__(self, runs: Path, environ: Mapping[str, str]) -> None:
        self.runs = runs
        self.environ = {**environ, "REPORT_DIR": str(runs)}

    def argv(self, *words: str) -> list[str]:
        return [*INVOKE, *words]

    def start(self, *words: str) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.argv(*words), cwd=ROOT, env=self.environ, stdout=pipe, stderr=pipe, text=True
        )

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        child = self.start(*words)
        try:
            out, err = child.communicate(timeout=180)
        except BaseException:
            child.kill()
            raise
        return subprocess.CompletedProcess(words, child.returncode, out, err)

    def detached(self, *words: str) -> str:
        """The handle of a job that was only submitted."""
        done = self.run("profile", "--detach", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().splitlines()[-1]

    def latest(self) -> Path:
        return max(self.runs.glob("*/run.json"), key=lambda path: path.stat().st_mtime).parent

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.latest() / "run.json").read_text())
        return record


def error_line(done: "subprocess.CompletedProcess[str]") -> str:
    """The one line of our own error; there is no traceback."""
    assert "Traceback" not in done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def await_true(what: Callable[[], object], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
