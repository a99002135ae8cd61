"""Run programs to their end. No other module of the package uses subprocess."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, TypeVar

from gpu_profile import files, signals
from gpu_profile.command import Command, Result, Steps, find_question
from gpu_profile.errors import ToolError, make_missing_error

T = TypeVar("T")
_GRACE_S = 10.0  # from SIGTERM to SIGKILL
_TIMED_OUT = 124  # as of timeout, https://man7.org/linux/man-pages/man1/timeout.1.html
SILENCE_S, LOOK_S = 120.0, 10.0
"""How long a server may be silent, and how long a program may take before its server is asked."""
NO_ANSWER = f"no answer for {SILENCE_S:g} s"
MATH_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables for the number of threads that numpy's libraries start."""


def find_program(program: str) -> str | None:
    return shutil.which(program)


def make_environment(command: Command | None = None) -> dict[str, str]:
    """Return the variables of this process, with those of a command."""
    return {**os.environ, **(command.env if command else {})}


@contextlib.contextmanager
def one_math_thread() -> Iterator[None]:
    """Limit numpy's libraries to one thread, here and in programs started in the body.

    OpenBLAS starts a thread a core when it is loaded; on 64 cores they spin for seconds of CPU.
    """
    names = [name for name in MATH_THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)


def end_child(child: subprocess.Popen[bytes]) -> None:
    """End a child of our own process group: SIGTERM, and SIGKILL after 10 s."""
    signals.terminate_family(child.pid)
    try:
        child.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()


def wait_for(child: subprocess.Popen[bytes], seconds: float) -> None:
    """Return when the child has ended, or after these seconds."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(seconds)


def close_group(child: subprocess.Popen[bytes]) -> None:
    """End the child's process group: SIGTERM, and SIGKILL after 10 s."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
            break
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe:
            pipe.close()


def run(command: Command, *, timeout_s: float | None = None) -> Result:
    """Run a program to its end and capture its output.

    It runs in its own session, so that Ctrl-C reaches only us. Raises ToolError if the program is
    missing or does not end in `timeout_s`. If its server is silent, it is ended with NO_ANSWER.
    """
    source, target = command.stdin_file, command.stdout_file
    with files.open_input(source) as stdin, files.open_output(target) as stdout:
        pipe = subprocess.PIPE
        child = _open_child(command, stdin or pipe, stdout or pipe, pipe)
        try:
            stdin_bytes = None if stdin else command.stdin.encode()
            result = _communicate(child, command, stdin_bytes, timeout_s)
        except ToolError as error:
            close_group(child)
            result = Result(returncode=_TIMED_OUT, stderr=error.what)
        except subprocess.TimeoutExpired as error:
            close_group(child)
            raise ToolError(f"`{command}` did not end in {timeout_s:g} s") from error
        except BaseException:
            close_group(child)
            raise
        if stdout and result.returncode and not command.stdout_partial:
            raise files.CutOutputError
    return result


def _communicate(
    child: subprocess.Popen[bytes], command: Command, stdin: bytes | None, timeout_s: float | None
) -> Result:
    """Return the child's result. Raises ToolError if its server is silent for two minutes."""
    question = None if timeout_s else find_question(command)
    while True:
        try:
            out, err = child.communicate(stdin, timeout=LOOK_S if question else timeout_s)
        except subprocess.TimeoutExpired:
            if question is None:
                raise
            stdin = None  # is on its way: a second call of communicate takes none
            ask_server(question)
        else:
            texts = [(data or b"").decode(errors="replace") for data in (out, err)]
            return Result(returncode=child.returncode, stdout=texts[0], stderr=texts[1])


def run_attached(command: Command) -> int:
    """Run a program on the user's terminal, such as a build or a shell. Returns its exit code.

    Standard input is the terminal, unless the command has its own text.
    """
    sys.stdout.flush()
    with files.open_text(command.stdin) if command.stdin else contextlib.nullcontext() as stdin:
        child = _open_child(command, stdin, own_session=False)
        while True:
            try:
                return child.wait()
            except (signals.Terminated, signals.HungUp):
                end_child(child)
                raise
            except KeyboardInterrupt:  # the terminal sent SIGINT to the child too: wait for it
                continue


@contextlib.contextmanager
def open_piped(command: Command) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """Start a program, give the body a pipe with both its outputs, and end it with the body."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as output:
        with os.fdopen(write_end, "wb") as child_end:
            child = start_child(command, child_end)
        try:
            yield child, output
        finally:
            if child.poll() is None:
                close_group(child)


def ask_server(question: Command) -> None:
    """Raise ToolError if a server is silent until two minutes are over."""
    try:
        run(question, timeout_s=SILENCE_S - LOOK_S)
    except ToolError as error:
        raise ToolError(f"{NO_ANSWER}: {error.what}", "Restart the server, and try again") from None


def start_child(
    command: Command, output: int | IO[bytes], *, own_session: bool = True
) -> subprocess.Popen[bytes]:
    """Start a command whose output and errors go to one file or pipe. The caller waits for it."""
    with files.open_text(command.stdin) as stdin:
        return _open_child(command, stdin, output, subprocess.STDOUT, own_session=own_session)


def _open_child(
    command: Command,
    stdin: int | IO[bytes] | None,
    stdout: int | IO[bytes] | None = None,
    stderr: int | None = None,
    *,
    own_session: bool = True,
) -> subprocess.Popen[bytes]:
    """Start a program. A signal meanwhile is raised when it has started, and ends it."""
    child: subprocess.Popen[bytes] | None = None
    environ = make_environment(command)
    words, hook = signals.tie_child(command.argv, environ, own_session=own_session)
    try:
        with signals.hold_signals(*signals.ENDING):
            child = subprocess.Popen(
                words,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=environ,
                start_new_session=own_session,
                preexec_fn=hook,
            )
    except OSError as error:
        raise make_missing_error(command.argv[0], error, command.if_missing) from error
    except BaseException:
        if child is not None:
            (close_group if own_session else end_child)(child)
        raise
    return child


def start_apart(command: Command) -> None:
    """Start a program with a window, which outlives this process and says nothing here."""
    nothing, environment = subprocess.DEVNULL, make_environment(command)
    try:
        subprocess.Popen(
            command.argv,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise make_missing_error(command.argv[0], error, command.if_missing) from error


def drive(steps: Steps[T]) -> T:
    """Run every command that `steps` yields, send it the result, and return the steps' value."""
    try:
        command = next(steps)
        while True:
            try:
                result = run(command)
            except (KeyboardInterrupt, signals.HungUp) as interrupt:  # the steps may clean up
                command = steps.throw(interrupt)
            else:
                command = steps.send(result)
    except StopIteration as stop:
        value: T = stop.value
        return value


def plan(steps: Steps[T]) -> tuple[Command, ...]:
    """Return the commands that `steps` would run if each succeeded, for --dry-run."""
    return plan_value(steps)[0]


def plan_value(steps: Steps[T]) -> tuple[tuple[Command, ...], T]:
    """Return the commands that `steps` would run if each succeeded, and what they would return."""
    commands = []
    try:
        command = next(steps)
        while True:
            commands.append(command)
            command = steps.send(Result(returncode=0))
    except StopIteration as end:
        return tuple(commands), end.value
