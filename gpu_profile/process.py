"""The one module that starts programs."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO, TypeVar

from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import ToolError

T = TypeVar("T")
_GRACE_S = 10.0


def which(program: str) -> str | None:
    return shutil.which(program)


def _environment(command: Command) -> dict[str, str]:
    return {**os.environ, **command.env}


def _missing(command: Command, error: OSError) -> ToolError:
    program = command.argv[0]
    if isinstance(error, PermissionError):
        return ToolError(f"{program} may not be run here", "Check its mode and its directory's")
    return ToolError(f"{program} is not installed here", "Install it, or see `invoke doctor`")


@contextlib.contextmanager
def _redirection(path: Path | None, mode: str) -> Iterator[IO[bytes] | None]:
    if path is None:
        yield None
    else:
        with path.open(mode) as file:
            yield file


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child's whole group: politely, then for good."""
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
    """Run to the end, output captured. In a session of its own: Ctrl-C is ours to handle.

    Raises ToolError where the program is not there or does not end in `timeout_s`.
    """
    with (
        _redirection(command.stdin_file, "rb") as stdin,
        _redirection(command.stdout_file, "wb") as stdout,
    ):
        try:
            child = subprocess.Popen(
                command.argv,
                stdin=stdin or subprocess.PIPE,
                stdout=stdout or subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(command),
                start_new_session=True,
            )
        except OSError as error:
            raise _missing(command, error) from error
        try:
            given = None if stdin else command.stdin.encode()
            out, err = child.communicate(given, timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            _end(child)
            raise ToolError(f"`{command}` did not end in {timeout_s:g} s") from error
        except BaseException:
            _end(child)
            raise
    return Result(
        returncode=child.returncode,
        stdout=(out or b"").decode(errors="replace"),
        stderr=err.decode(errors="replace"),
    )


def run_attached(command: Command) -> int:
    """Run on our own terminal: builds, shells, anything whose output the user reads live."""
    sys.stdout.flush()
    try:
        with subprocess.Popen(command.argv, env=_environment(command)) as child:
            while True:
                try:
                    return child.wait()
                except KeyboardInterrupt:  # the child got it too, and ends in its own way
                    continue
    except OSError as error:
        raise _missing(command, error) from error


def lines(command: Command) -> Generator[str, None, int]:
    """Yield the lines of both outputs as they come; return when the program ends.

    The generator's value is the exit code.
    """
    try:
        child = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(command),
            start_new_session=True,
        )
    except OSError as error:
        raise _missing(command, error) from error
    assert child.stdout is not None
    try:
        for line in child.stdout:
            yield line.decode(errors="replace").rstrip("\n")
        return child.wait()
    finally:
        child.stdout.close()
        if child.poll() is None:
            _end(child)


@contextlib.contextmanager
def in_background(command: Command, output: Path) -> Iterator[None]:
    """Append both outputs to a file while the body runs, then end the program."""
    with output.open("ab") as file:
        try:
            child = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=_environment(command),
                start_new_session=True,
            )
        except OSError as error:
            raise _missing(command, error) from error
        try:
            yield
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(2.0)
        finally:
            if child.poll() is None:
                _end(child)


def drive(steps: Steps[T]) -> T:
    """Run every command that `steps` yields, hand it the result, and return its value."""
    try:
        command = next(steps)
        while True:
            command = steps.send(run(command))
    except StopIteration as stop:
        value: T = stop.value
        return value


def plan(steps: Steps[T]) -> tuple[Command, ...]:
    """The commands that `steps` would run if each succeeded: what --dry-run prints."""
    commands = []
    with contextlib.suppress(StopIteration):
        command = next(steps)
        while True:
            commands.append(command)
            command = steps.send(Result(returncode=0))
    return tuple(commands)
