"""What the live tests of host, ssh and slurm share: a run from the command line, as users do it."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpu_profile.settings.places import ROOT
from tests.invoked import INVOKE, invoke

BEAT = "import os,sys,time\nprint('up', os.environ.get('RANK'), flush=True)\n"
"""A program that says that it runs; add how it ends."""
STEPS = BEAT + (
    "for n in range(5):\n"
    "    time.sleep(0.1)\n"
    "    if os.environ.get('RANK', '0') == '0':\n"
    '        print(\'{"step": %d, "step_ms": 100.5}\' % n, flush=True)\n'
)
"""A program that says its step times, as the samples do."""


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
        """Run it to its end, in a child of the fork server: a new Python takes 0.4 s of CPU."""
        done = invoke(*words, directory=ROOT, **self.environ)
        return subprocess.CompletedProcess(words, done.returncode, done.stdout, done.stderr)

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


class Installed(Invoked):
    """`gpu-profile`, as a wheel installs it, in a directory of the user's own."""

    def __init__(self, invoked: Invoked, directory: Path) -> None:
        super().__init__(invoked.runs, {**invoked.environ, "PYTHONPATH": str(ROOT)})
        self.environ = {k: v for k, v in self.environ.items() if k != "VIRTUAL_ENV"}
        self.directory = directory
        self.program = invoked.runs.parent / "gpu-profile"
        lines = (
            "from gpu_profile.cli.tasks import main",
            "if __name__ == '__main__':",
            "    main()",
        )
        self.program.write_text("\n".join(lines))

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = ("env", f"--chdir={self.directory}", sys.executable, str(self.program), *words)
        return subprocess.run(
            argv, env=self.environ, capture_output=True, text=True, timeout=180, check=False
        )


def make_own_directory(directory: Path, *environments: str) -> None:
    """A user's directory: app.py shows where it runs, with a module beside it and which Python."""
    directory.mkdir(exist_ok=True)
    (directory / "layers.py").write_text("import os, sys\nPLACE = os.getcwd(), sys.prefix\n")
    (directory / "app.py").write_text("import layers\nprint('place', *layers.PLACE, sep='|')\n")
    (directory / ".env").write_text("DJANGO_SETTINGS_MODULE=site.settings\nIMAGE=theirs\n")
    for name in environments:
        words = (sys.executable, "-m", "venv", "--without-pip", str(directory / name))
        subprocess.run(words, check=True)


def read_place(invoked: Invoked) -> list[str]:
    """The directory in which app.py ran, and the environment of its Python."""
    lines = (invoked.latest() / "output.log").read_text().splitlines()
    return next(line for line in lines if line.startswith("place|")).split("|")[1:]


def assert_costed(invoked: Invoked, *where: str) -> None:
    """`profile --baseline` says what the profile cost, and so does whatever reads the run."""
    done = invoked.run("profile", "--baseline", *where, "--", "python3", "-c", STEPS)
    assert done.returncode == 0, done.stderr + (invoked.latest() / "output.log").read_text()
    record = invoked.record()
    expected = {"step_ms": 100.5, "profiled_step_ms": 100.5, "ratio": 1.0, "mean_ms": 100.5}
    assert record["baseline"] == expected
    line = "the profile cost 1.000x: 100.50 -> 100.50 ms a step"
    assert (done.stdout + done.stderr).count(line) == 1
    for verb, flag in (("status", "--job"), ("stats", "--run"), ("diagnose", "--run")):
        said = invoked.run(verb, flag, record["id"])
        assert line in said.stdout + said.stderr, (verb, said.stdout, said.stderr)
    assert invoked.run("html", "--run", record["id"]).returncode == 0
    assert "1.000x" in (invoked.latest() / "page.html").read_text()
    assert "1.000x" in invoked.run("reports").stdout


def error_line(done: "subprocess.CompletedProcess[str]") -> str:
    """The one line of our own error; there is no traceback."""
    assert "Traceback" not in done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def await_true(what: Callable[[], object], within_s: float = 120.0) -> None:
    deadline = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
