"""Running profile.py with the fake nsys, for the tests of it."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recorded_env import secret_names

from gpu_profile.command import Result
from tests.forked import run_python

ROOT = Path(__file__).parents[3]
PROFILE = ROOT / "Container-Root" / "agent" / "profile_ranks.py"
VERSION = "NVIDIA Nsight Systems version 2099.1.0"


@dataclass(frozen=True)
class Wrapper:
    """profile.py in a directory: reports go to `out`, and `nsys` is the fake one."""

    directory: Path
    nsys: Path

    @property
    def out(self) -> Path:
        return self.directory / "out"

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, str(PROFILE), f"--nsys={self.nsys}", f"--output={self.out}", *words]

    def run(self, *words: str, **environ: str) -> Result:
        """Run it to its end in a child of the fork server."""
        return run_python(self.argv(*words)[1:], self.directory, environ, without=list_left_out())

    def start(self, *words: str, **environ: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.argv(*words),
            env=clean_environment(environ),
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def reports(self) -> list[str]:
        """The reports' names without the host, which is this machine's."""
        names = (path.name.split(".") for path in self.out.glob("*.nsys-rep"))
        return sorted(f"{name[0]}.{name[-1]}" for name in names)

    def recorded(self, rank: int = 0) -> dict[str, Any]:
        """What the fake nsys wrote for a rank."""
        (path,) = self.out.glob(f"rank{rank}.*.nsys-rep")
        record: dict[str, Any] = json.loads(path.read_text())
        return record


FAKE_NSYS = """#!/bin/sh
case "$*" in
  --version) echo '{version}'; exit ;;
  sessions*)
    for file in {sessions}/*; do
      IFS= read -r session <"$file" || [ -n "$session" ] || continue
      state=${{session#*'"state": "'}}
      echo "  1031343        00:04                  ${{state%%'"'*}}      1 ${{file##*/}}"
    done
    exit ;;
esac
exec {python} -I -S -c '{code}' {sessions} "$@"
"""
"""The version and the sessions are asked for often: a shell answers in 2 ms, a Python in 40."""
CODE = 'import sys; sys.path.insert(0, "{folder}"); import fake_nsys; fake_nsys.start()'
"""An imported module has bytecode, and a Python without site starts in half of the time."""


def wrapper_in(directory: Path) -> Wrapper:
    nsys = directory / "nsys"
    code = CODE.format(folder=Path(__file__).parent)
    sessions = shlex.quote(str(directory / "sessions"))
    nsys.write_text(
        FAKE_NSYS.format(version=VERSION, sessions=sessions, python=sys.executable, code=code)
    )
    nsys.chmod(0o755)
    return Wrapper(directory, nsys)


def list_left_out() -> set[str]:
    """Variables that would make a program a rank, and credentials."""
    ranks = ("RANK", "WORLD_SIZE", "LOCAL_", "OMPI_", "PMI", "SLURM_", "MASTER_", "PET_")
    return {*secret_names(os.environ), *(k for k in os.environ if k.startswith(ranks))}


def clean_environment(environ: dict[str, str]) -> dict[str, str]:
    left_out = list_left_out()
    return {k: v for k, v in os.environ.items() if k not in left_out} | environ


def python(code: str) -> tuple[str, str, str]:
    return sys.executable, "-c", code
