#!/usr/bin/env python3
"""Run a container's own command with its ranks under nsys, and keep the reports for the fetch.

    run_container.py [--by container|torchrun|mpirun] [--hold S] [--nsys PATH] --output DIR
                     [PROFILE_OPTION…] -- COMMAND…

`container`: the whole command runs under one nsys. `torchrun`: each rank gets its own, for torchrun
starts what PYTHON_EXEC names (torch/distributed/run.py, config_from_args). `mpirun`: a shim first
in PATH puts profile_ranks.py before the program. PROFILE_OPTIONs are those of profile_ranks.py. At
its end it waits up to S seconds for `.fetched` in DIR. Exits with the command's own exit code.
Python 3.8, stdlib only.
"""

from __future__ import annotations

import argparse
import errno
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import shim
from node_directory import refuse_planted
from program_kind import find_program, prepare_for_init
from rank_call import RefusedError
from shim_files import write_shims

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_AGENT = Path(__file__).resolve().parent
_INDEXES = (
    *("RANK", "PET_NODE_RANK", "NODE_RANK", "JOB_COMPLETION_INDEX", "LWS_WORKER_INDEX"),
    "GPU_PROFILE_INDEX",
)
"""Where operators write a pod's number."""
_NOT_FOUND = 127
_BY_SIGNAL = 128


class Call(NamedTuple):
    """The parsed command line. `profile_words` are options of profile_ranks.py."""

    options: argparse.Namespace
    profile_words: Sequence[str]
    command: Sequence[str]

    def of_a_rank(self, *more: str) -> list[str]:
        """Return the words before the command of one rank."""
        nsys = shutil.which(self.options.nsys) or self.options.nsys
        ours = (f"--output={self.options.output}", f"--nsys={nsys}")
        script = str(_AGENT / "profile_ranks.py")
        python = [sys.executable]
        if sys.flags.ignore_environment:
            python.append("-E")
        return [*python, script, *ours, *more, *self.profile_words, "--"]


def parse_call(argv: Sequence[str]) -> Call:
    """Return the parsed command line. Exits with 2 where no command stands after `--`."""
    parser = argparse.ArgumentParser(prog="run_container.py", usage=__doc__, allow_abbrev=False)
    parser.add_argument("--by", default="container", choices=("container", "torchrun", "mpirun"))
    parser.add_argument("--hold", type=float, default=0.0)
    parser.add_argument("--nsys", default="nsys")
    parser.add_argument("--output", required=True)
    end = argv.index("--") if "--" in argv else len(argv)
    options, profile_words = parser.parse_known_args(argv[:end])
    if not argv[end + 1 :]:
        parser.error("no command stands after --")
    return Call(options, profile_words, argv[end + 1 :])


def name_pod(environ: Mapping[str, str]) -> str:
    """Return the pod's name. With hostNetwork the host's name is the node's."""
    return environ.get("GPU_PROFILE_POD") or platform.node()


def find_index(environ: Mapping[str, str]) -> int:
    """Return the pod's number: an operator's variable, or the ending of a StatefulSet's pod."""
    for name in _INDEXES:
        if environ.get(name, "").isdecimal():
            return int(environ[name])
    ending = re.search(r"-(\d{1,4})$", environ.get("GPU_PROFILE_POD", ""))
    return int(ending[1]) if ending else 0


def make_start(call: Call, environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the words that start the command, and their environment."""
    env, command = prepare_for_init(call.command, environ), list(call.command)
    if call.options.by == "container":
        return [*call.of_a_rank(f"--rank={find_index(environ)}"), *command], env
    # By host: several pods may share one claim.
    shims = str(Path(call.options.output) / f".shims.{platform.node()}")
    program = command[find_program(command)]
    name = Path(program).name
    real = shim.find_real(program, shims, environ)
    settings = {"rank": call.of_a_rank(), "name": name, "real": real}
    if call.options.by == "torchrun":
        settings["python"] = environ.get("PYTHON_EXEC") or find_python(real)
        write_shims(shims, [shim.RANK_PYTHON], settings)
        return command, {**env, "PYTHON_EXEC": f"{shims}/{shim.RANK_PYTHON}"}
    write_shims(shims, shim.MPI_PROGRAMS, settings)
    env["PATH"] = os.pathsep.join([shims, environ.get("PATH", os.defpath)])
    if name in shim.MPI_PROGRAMS:
        command[find_program(command)] = f"{shims}/{name}"
    return command, env


def find_python(program: str) -> str:
    """Return the Python of `torchrun`, whose first line names it, or of `python -m …` itself."""
    if re.fullmatch(r"python[\d.]*", Path(program).name):
        return program
    try:
        with Path(program).open("rb") as file:
            first = file.readline(512).decode(errors="replace")
    except OSError:
        first = ""
    words = first[2:].split() if first.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = words[1:]
    return words[0] if words else "python3"


class Program:
    """The container's command, which stop signals to this process reach."""

    def __init__(self, reports: Path) -> None:
        self.reports = reports
        self.child: subprocess.Popen[bytes] | None = None
        self.signum = 0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, signum: int, _frame: object) -> None:
        # One signal only: a second one has mpirun abort its ranks.
        if self.child is None:
            self.signum = signum
        elif self.child.poll() is None:
            self.child.send_signal(signum)

    def run(self, argv: Sequence[str], env: Mapping[str, str]) -> int:
        """Run the words to their end and return their exit code, 128 + n for signal n."""
        host = platform.node()
        if (self.reports / f".stopped.{host}").exists():
            return _BY_SIGNAL + signal.SIGTERM
        try:
            self.child = subprocess.Popen(argv, env=dict(env))
        except OSError as error:
            say(f"{argv[0]}: {error.strerror}")
            return _NOT_FOUND
        write(self.reports / f".pid.{host}", str(self.child.pid))
        if self.signum:
            self.child.send_signal(self.signum)
        code = self.child.wait()
        return _BY_SIGNAL - code if code < 0 else code


def say(text: str) -> None:
    print(f"gpu-profile: {text}", file=sys.stderr, flush=True)


def write(path: Path, text: str) -> None:
    """Write a mark. A full disk ends no run, and no pod."""
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        say(f"{path}: {error.strerror}")


def has_recordings(reports: Path) -> bool:
    return any(any(reports.glob(f"rank*.{kind}")) for kind in ("nsys-rep", "qdstrm"))


def hold(reports: Path, seconds: float, code: int) -> None:
    """Wait for the fetch: of a pod that has ended nothing can be read. A stop signal ends that."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(code))
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (reports / ".fetched").exists():
        time.sleep(1)


def make_directory(reports: Path) -> None:
    """Make the directory of the reports. Raises RefusedError where this user cannot write there."""
    try:
        reports.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The kubelet makes a directory of the node readable for everybody there.
        if reports.stat().st_uid == os.geteuid() and not any(reports.iterdir()):
            reports.chmod(0o700)
        if not os.access(reports, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        who = f"user {os.geteuid()} of this container"
        raise RefusedError(f"{who} cannot write reports: {reports}: {error.strerror}") from error


def run(call: Call, environ: Mapping[str, str]) -> int:
    """Run the command once. A container that was started again only holds its reports."""
    reports = Path(call.options.output)
    ended = reports / f".ended.{platform.node()}"
    if ended.exists():
        return int(ended.read_text(encoding="utf-8"))
    argv, env = make_start(call, environ)
    code = Program(reports).run(argv, env)
    write(ended, str(code))
    return code


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    call = parse_call(argv)
    try:
        refuse_planted(Path(call.options.output))
        make_directory(Path(call.options.output))
    except RefusedError as error:
        say(str(error))
        return error.code
    code = run(call, environ)
    seconds = call.options.hold
    if seconds:
        pod, reports = name_pod(environ), Path(call.options.output)
        is_armed = "--record=manual" in call.profile_words
        if not is_armed and not has_recordings(reports):
            say(f"{pod}: no rank was seen below {call.command[0]}: there is no report of this pod")
        say(f"{pod} ended with {code}; its reports are in {reports} for {seconds:g} s")
        hold(reports, seconds, code)
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
