"""Run one rank of a command under nsys and complete its report. Python 3.8, stdlib only."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import shelter
from annotated_env import STEPS_FILE, describe_steps, make_environment_with_marks
from masked_import import Recorded
from mpirun_watch import MpirunWatch
from nsys_session import Session
from process_tree import has_started_agent
from rank_call import Call, RefusedError
from rank_processes import Child, say
from record_windows import Windows
from recorded_env import without_callbacks
from recording_end import RecordingEnd
from room_watch import LEAST_ROOM, RoomWatch
from window_files import name_host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rank_env import Place

_NOT_FOUND = 127
_BY_SIGNAL = 128  # exit codes from here on: a signal ended the program
_SHOW_OUTPUT = ("--show-output", "-w")
_WINDOWS = ("--duration", "--capture-range", "-d", "-c")
_OTHER_ENDS = (*_WINDOWS, "--delay", "-y", "--start-later", "-Y", "--session")
"""Options with which a recording gets no end by default: it has a window, or a session's name."""


def wait_for(child: Child, call: Call) -> int:
    """Return the child's exit code, or 1 where an mpirun was ended: its ranks' are unknown."""
    watch = MpirunWatch(call.options.mpirun_wait)
    watch.start()
    code = child.wait()
    if watch.has_ended_one:
        say("mpirun waited on for ranks that had all ended; their exit codes are unknown")
    return 1 if watch.has_ended_one else code


class Attempt(NamedTuple):
    """One call of nsys that has ended: its exit code, its recording, and how far it went.

    `was_stopped` is true after a stop signal, `had_agent` where nsys had started its agent, and
    `has_started` where the program had begun.
    """

    code: int
    was_stopped: bool
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
        return self.had_agent and not self.has_started and not self.was_stopped


class Recording:
    """Run one rank under nsys and complete its report."""

    def __init__(self, call: Call, here: Place) -> None:
        self.call = call
        self.here = here
        self.output = Path(call.options.output).absolute()
        window = f".{call.options.window}" if call.options.window else ""
        self.name = f"rank{here.rank}.{name_host()}{window}"
        self.steps_file = self.output / f"{self.name}{STEPS_FILE}"

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> int:
        """Run the command under nsys, remove environments from the report, return the exit code."""
        nsys = shutil.which(self.call.options.nsys)
        if nsys is None:
            raise RefusedError(f"no nsys: {self.call.options.nsys} not found", _NOT_FOUND)
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
        attempt.recording.warn(self.files("nsys-rep"), self.here.rank)
        # A program that never began is no success, though nsys ends with 0.
        code, room = attempt.code or int(attempt.lost_agent()), attempt.room.describe()
        if code and room:
            say(f"rank {self.here.rank} ended with exit code {code}; {room}")
        return self.choose_exit_code(code, attempt.was_stopped, started)

    def _record(
        self, nsys: str, command: Sequence[str], env: Mapping[str, str], folder: str
    ) -> Attempt:
        """Run the command under nsys once."""
        ours = self.call.options
        room = RoomWatch(folder)
        wrapped = shelter.wrap_command(command, ours.shelter, not self.has_option(_SHOW_OUTPUT))
        session = self.make_session(nsys, env)
        control = self.make_control(session)
        with control.watched():
            marked = self.make_environment(env, control.address)
            if self.is_manual():
                marked = without_callbacks(marked, self.call.nsys_options)
            recording = Recorded(nsys, self.call.nsys_options, marked)
            control.at_report = functools.partial(self._complete_reports, recording)
            with recording.keeper, room, wrapped as program:
                argv = [*self.argv(nsys, session), *program.words]
                # A user's script may read what its programs print: nsys' words are not theirs.
                stdout = 2 if ours.bare and program.has_outputs else None
                with shelter.block_signals(ours.shelter):
                    child = Child(
                        argv,
                        recording.environment,
                        ours.grace,
                        profiler=True,
                        stdout=stdout,
                        # start_program.py gives the program SIGPIPE's default again.
                        ignores_pipes=program.words is not command,
                    )
                child.before_end = control.join
                code = wait_for(child, self.call)
                control.join()
                had_agent, has_started = has_started_agent(), program.has_started()
        stopped = bool(child.stopper.signum)
        return Attempt(code, stopped, had_agent, has_started, recording, room)

    def make_session(self, nsys: str, env: Mapping[str, str]) -> Session | None:
        """Return nsys' session where the recording is started or ended from outside."""
        if not self.is_manual() and not self.ends_by_itself():
            return None
        return Session(nsys, self.here.rank, env, self.output / f"{self.name}.nsys-rep")

    def make_control(self, session: Session | None) -> RecordingEnd | Windows:
        """Return what starts or ends the recording while the program runs."""
        if session is not None and self.is_manual():
            return Windows(session, self.output, self.name)
        return RecordingEnd(session, self.here.rank)

    def is_manual(self) -> bool:
        """Return whether nsys records nothing until record_window.py asks for it."""
        return bool(self.call.options.record == "manual") and os.name == "posix"

    def ends_by_itself(self) -> bool:
        """Return whether the recording ends after enough steps, as without any window."""
        ours = self.call.options
        marked = ours.annotate != "none" and not ours.steps and not ours.whole
        return marked and os.name == "posix" and not self.has_option(_OTHER_ENDS)

    def _complete_reports(self, recording: Recorded) -> None:
        """Import what nsys left, without environments."""
        if not self.files("nsys-rep") and not self.files("qdstrm"):
            recording.rescue(self.output / f"{self.name}.qdstrm")
        recording.mask(self.files("qdstrm"))
        recording.import_left(self.files("qdstrm"))
        reports = self.files("nsys-rep")
        recording.replace(reports)
        for report in reports:
            report.chmod(0o600)

    def make_environment(self, env: Mapping[str, str], end: str) -> dict[str, str]:
        """Return the environment, with marks if --annotate has a level. `end`: a socket or ""."""
        ours = self.call.options
        return make_environment_with_marks(
            env, ours.annotate, ours.steps, self.steps_file, self.call.nsys_options, end
        )

    def make_timed_environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a run without nsys whose steps are timed."""
        self.output.mkdir(mode=0o700, parents=True, exist_ok=True)
        return make_environment_with_marks(env, "steps", "", self.steps_file)

    def argv(self, nsys: str, session: Session | None) -> list[str]:
        first = self.call.options.first if self.here.local_rank == 0 else []
        # nsys replaces %h, %p and %q{NAME} in --output: %% is a literal percent sign.
        output = str(self.output / self.name).replace("%", "%%")
        names = [f"--session-new={session.name}"] if session else []
        names += ["--start-later=true"] if self.is_manual() else []
        return [nsys, "profile", *self.call.nsys_options, *first, f"--output={output}", *names]

    def files(self, suffix: str) -> list[Path]:
        """Return the rank's files: `rank0.host.nsys-rep`, with windows `rank0.host.2.nsys-rep`."""
        pattern = re.compile(re.escape(self.name) + r"(\.\d+)?\." + suffix)
        return sorted(path for path in self.output.iterdir() if pattern.fullmatch(path.name))

    def choose_exit_code(self, code: int, stopped: bool, started: float) -> int:
        """Return the job's exit code, or 0 if nsys ended the job at the end of its window."""
        reports = self.files("nsys-rep")
        steps = self.call.options.steps
        news = describe_steps(self.steps_file, steps) if steps else ""
        if reports and news:
            say(f"rank {self.here.rank}: --steps {steps}: {news}")
        if not reports and not self.files("qdstrm") and not self.is_manual():
            why = _tell_leftovers(started) if stopped or code >= _BY_SIGNAL else ""
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
    # As nsys chooses it. tempfile.gettempdir() would pass over a folder that is full.
    folder = environ.get("TMPDIR") or "/tmp"
    with contextlib.suppress(OSError):
        if shutil.disk_usage(folder).free < LEAST_ROOM:
            what = f"{folder} has less than {LEAST_ROOM >> 20} MB free, and nsys records there"
            raise RefusedError(f"{what}: make room, or set TMPDIR to another place")
    return folder


def _tell_leftovers(started: float) -> str:
    """Return a note on .qdstrm files that nsys leaves in the temporary folder if ended early.

    They may also be those of another rank of this node.
    """
    streams = [
        str(path)
        for path in Path(tempfile.gettempdir()).glob("nsys-report-*.qdstrm")
        if path.stat().st_mtime >= started
    ]
    return f"; recordings that it may have left: {', '.join(streams)}" if streams else ""
