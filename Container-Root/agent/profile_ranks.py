#!/usr/bin/env python3
"""Run a command, each chosen rank of it under Nsight Systems. Python 3.8, stdlib only.

    profile.py [--processes N] [--ranks all|0,3] [--output DIR] [--nsys PATH] [--first=OPTION]…
               [--annotate LEVEL] [--steps A:B] [--plain] [--shelter] [--rank N] [NSYS_OPTION…]
               -- COMMAND…

Starts N ranks on this node with --processes; otherwise it is one rank of torchrun, mpirun, srun
or of its own --processes, and finds out which; --rank says it. A chosen rank's report is
DIR/rank<N>.<host>.nsys-rep. Exits with the command's own exit code, 128+n where signal n ended it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

# The sibling modules lie beside this file, also where it is a copy on another machine.
import shelter
import start_ranks
from annotated_env import STEPS_FILE, describe_steps, make_environment_with_marks
from masked_import import Recorded
from mpirun_watch import MpirunWatch, is_mpirun
from process_tree import has_started_agent
from rank_call import USAGE, Call, RefusedError, parse_call
from rank_env import Place, place
from rank_processes import Child, exit_code, say
from room_watch import LEAST_ROOM, RoomWatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_EXECUTABLE, NOT_FOUND = 126, 127
_BY_SIGNAL = 128  # exit codes from here on: a signal ended the program
_SHOW_OUTPUT = ("--show-output", "-w")
_WINDOWS = ("--duration", "--capture-range", "-d", "-c")
_RANKS = re.compile(r"(\d+)(?:-(\d+))?$")  # 3 or 0-3


def check_ranks(ranks: str) -> None:
    """Raise RefusedError unless `ranks` is a list of ranks: all, 0,3 or 0-3."""
    for part in ranks.split(","):
        if part.strip() != "all" and not _RANKS.match(part.strip()):
            raise RefusedError(f"--ranks {ranks!r} is not a list of ranks: use all, 0,3 or 0-3")


def is_chosen(ranks: str, rank: int) -> bool:
    """Return whether the list `ranks` contains `rank`. Raises RefusedError as check_ranks does."""
    check_ranks(ranks)
    matches = (_RANKS.match(part.strip()) for part in ranks.split(","))
    is_named = any(int(m[1]) <= rank <= int(m[2] or m[1]) for m in matches if m)
    return is_named or ranks.strip() == "all"


def resolve_command(command: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the command with the absolute path of its program, found in PATH.

    nsys does not search PATH as a shell does.
    """
    path = shutil.which(command[0], path=environ.get("PATH", os.defpath))
    if path:
        return [path, *command[1:]]
    if Path(command[0]).is_file():
        raise RefusedError(f"{command[0]} is not executable", NOT_EXECUTABLE)
    raise RefusedError(f"{command[0]}: command not found", NOT_FOUND)


def run_rank(call: Call, here: Place, environ: Mapping[str, str]) -> int:
    """Run the command as this rank, under nsys if the rank is in --ranks. Returns its exit code."""
    env = {**environ, **here.environment(environ)}
    is_recorded = not call.options.plain and is_chosen(call.options.ranks, here.rank)
    command = resolve_command(call.command, env)
    if is_recorded:
        return Recording(call, here).run(command, env)
    # As process 1 of a container the command would get no SIGTERM unless it installs a handler
    # (pid_namespaces(7)): run it as a child instead.
    if os.name == "posix" and os.getpid() != 1 and not is_mpirun(command):
        sys.stdout.flush()
        os.execve(command[0], command, env)
    return _wait(Child(command, env, call.options.grace), call)


def _wait(child: Child, call: Call) -> int:
    """Return the child's exit code, or 1 where an mpirun was ended: its ranks' are unknown."""
    watch = MpirunWatch(call.options.mpirun_wait)
    watch.start()
    code = child.wait()
    if watch.ended:
        say("mpirun waited on for ranks that had all ended; their exit codes are unknown")
    return 1 if watch.ended else code


class Attempt(NamedTuple):
    """One call of nsys that has ended: its exit code, its recording, and how far it went.

    `stopped` is true after a stop signal, `had_agent` where nsys had started its agent, and
    `has_started` where the program had begun.
    """

    code: int
    stopped: bool
    had_agent: bool
    has_started: bool
    recording: Recorded
    room: RoomWatch

    def lost_agent(self) -> bool:
        """Return whether nsys lost its agent before it started the program: it can start again.

        nsys 2023.4.4 says "Connection to Agent lost. This is most likely a bug." now and then where
        several start at once (1 of 150 with 6 at a time), and then ends with 0 or 1. One that
        refuses its options starts no agent, and would refuse them again.
        """
        return self.had_agent and not self.has_started and not self.stopped


class Recording:
    """Run one rank under nsys and complete its report."""

    def __init__(self, call: Call, here: Place) -> None:
        self.call = call
        self.here = here
        host = re.sub(r"[^\w.-]", "_", platform.node().partition(".")[0]) or "localhost"
        self.output = Path(call.options.output).absolute()
        self.name = f"rank{here.rank}.{host}"
        self.steps_file = self.output / f"{self.name}{STEPS_FILE}"

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> int:
        """Run the command under nsys, remove environments from the report, return the exit code."""
        nsys = shutil.which(self.call.options.nsys)
        if nsys is None:
            raise RefusedError(f"no nsys: {self.call.options.nsys} not found", NOT_FOUND)
        self.output.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.files("nsys-rep") or self.files("qdstrm"):
            raise RefusedError(f"{self.output / self.name}.nsys-rep exists: name another --output")
        folder = _require_room(env)
        started = time.time()
        attempt = self._record(nsys, command, env, folder)
        if attempt.lost_agent():
            what = "nsys ended before it started the program; nsys is started again"
            say(f"rank {self.here.rank}: {what}")
            attempt = self._record(nsys, command, env, folder)
        self._complete_reports(attempt.recording)
        # A program that never began is no success, though nsys ends with 0.
        code, room = attempt.code or int(attempt.lost_agent()), attempt.room.describe()
        if code and room:
            say(f"rank {self.here.rank} ended with exit code {code}; {room}")
        return self.choose_exit_code(code, attempt.stopped, started)

    def _record(
        self, nsys: str, command: Sequence[str], env: Mapping[str, str], folder: str
    ) -> Attempt:
        """Run the command under nsys once."""
        recording = Recorded(nsys, self.call.nsys_options, self.make_environment(env))
        sheltered = self.call.options.shelter
        room = RoomWatch(folder)
        wrapped = shelter.wrap_command(command, sheltered, not self.has_option(_SHOW_OUTPUT))
        with recording.keeper, room, wrapped as program:
            argv = [*self.argv(nsys), *program.words]
            with shelter.block_signals(sheltered):
                child = Child(argv, recording.environment, self.call.options.grace)
            code = _wait(child, self.call)
            had_agent, has_started = has_started_agent(), program.has_started()
        stopped = bool(child.stopper.signum)
        return Attempt(code, stopped, had_agent, has_started, recording, room)

    def _complete_reports(self, recording: Recorded) -> None:
        """Import what nsys left, without environments."""
        if not self.files("nsys-rep") and not self.files("qdstrm"):
            recording.rescue(self.output / f"{self.name}.qdstrm")
        recording.mask(self.files("qdstrm"))
        recording.import_left(self.files("qdstrm"))
        recording.replace(self.files("nsys-rep"), self.here.rank)

    def make_environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment, with marks if --annotate has a level."""
        ours = self.call.options
        return make_environment_with_marks(
            env, ours.annotate, ours.steps, self.steps_file, self.call.nsys_options
        )

    def argv(self, nsys: str) -> list[str]:
        first = self.call.options.first if self.here.local_rank == 0 else []
        # nsys replaces %h, %p and %q{NAME} in --output: %% is a literal percent sign.
        output = str(self.output / self.name).replace("%", "%%")
        return [nsys, "profile", *self.call.nsys_options, *first, f"--output={output}"]

    def files(self, suffix: str) -> list[Path]:
        """Return the rank's files: `rank0.host.nsys-rep`, with windows `rank0.host.2.nsys-rep`."""
        pattern = re.compile(re.escape(self.name) + r"(\.\d+)?\." + suffix)
        return sorted(path for path in self.output.iterdir() if pattern.fullmatch(path.name))

    def choose_exit_code(self, code: int, stopped: bool, started: float) -> int:
        """Return the job's exit code, or 0 if nsys ended the job at the end of its window."""
        reports = self.files("nsys-rep")
        for report in reports:
            report.chmod(0o600)
        steps = self.call.options.steps
        news = describe_steps(self.steps_file, steps) if steps else ""
        if reports and news:
            say(f"rank {self.here.rank}: --steps {steps}: {news}")
        if not reports and not self.files("qdstrm"):
            why = _left_behind(started) if stopped or code >= _BY_SIGNAL else ""
            why = why or (f": --steps {steps}: {news}" if news else "")
            never = "its window was never reached, or " if self.has_window() else ""
            why = why or f": {never}see its own message above"
            say(f"rank {self.here.rank}: nsys wrote no report{why}")
        if code in (143, 137) and reports and not stopped and self.nsys_ends_the_job():
            return 0
        return code

    def nsys_ends_the_job(self) -> bool:
        """Return whether there is a window (--duration, --capture-range) without --kill=none.

        At the end of the window nsys then kills the job, whose exit code is 143 or 137.
        """
        return "--kill=none" not in self.call.nsys_options and self.has_window()

    def has_window(self) -> bool:
        return self.has_option(_WINDOWS)

    def has_option(self, beginnings: tuple[str, ...]) -> bool:
        return any(word.startswith(beginnings) for word in self.call.nsys_options)


def _require_room(environ: Mapping[str, str]) -> str:
    """Return the temporary folder, where nsys records. Raises RefusedError if it is nearly full."""
    folder = environ.get("TMPDIR") or "/tmp"
    with contextlib.suppress(OSError):
        if shutil.disk_usage(folder).free < LEAST_ROOM:
            what = f"{folder} has less than {LEAST_ROOM >> 20} MB free, and nsys records there"
            raise RefusedError(f"{what}: make room, or set TMPDIR to another place")
    return folder


def _left_behind(started: float) -> str:
    """Return a note on .qdstrm files that nsys leaves in the temporary folder if ended early.

    They may also be those of another rank of this node.
    """
    streams = [
        str(path)
        for path in Path(tempfile.gettempdir()).glob("nsys-report-*.qdstrm")
        if path.stat().st_mtime >= started
    ]
    return f"; recordings that it may have left: {', '.join(streams)}" if streams else ""


def _choose_place(call: Call, environ: Mapping[str, str]) -> Place:
    """Return the place of --rank, which gives the program no variables, or of the environment."""
    rank = call.options.rank
    return place(environ) if rank is None else Place(rank)


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    try:
        call = parse_call(argv, __doc__ or "")
        if call.options.processes > 0:
            check_ranks(call.options.ranks)
            resolve_command(call.command, environ)  # refuse once what each rank would refuse
            argv = call.of_a_rank()
            code = start_ranks.start(argv, call.options.processes, environ, call.options.grace)
        else:
            code = run_rank(call, _choose_place(call, environ), environ)
    except (RefusedError, ValueError) as error:
        say(str(error))
        return error.code if isinstance(error, RefusedError) else USAGE
    except OSError as error:
        say(f"{error.filename or 'the command'}: {error.strerror}")
        return exit_code(NOT_EXECUTABLE)
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
