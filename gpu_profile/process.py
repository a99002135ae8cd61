"""The one module that starts programs."""

import collections
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, TypeVar

from gpu_profile import files
from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import ToolError

T = TypeVar("T")
_GRACE_S = 10.0
MATH_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""How many threads the libraries under numpy make, where the user has not said."""


def find_program(program: str) -> str | None:
    return shutil.which(program)


def _make_environment(command: Command) -> dict[str, str]:
    return {**os.environ, **command.env}


def _make_missing_error(command: Command, error: OSError) -> ToolError:
    program = command.argv[0]
    if isinstance(error, PermissionError):
        return ToolError(f"{program} may not be run here", "Check its mode and its directory's")
    return ToolError(f"{program} is not installed here", "Install it, or see `invoke doctor`")


class _CutOutputError(Exception):
    """Ends a draft without its taking the place of the file."""


@contextlib.contextmanager
def one_math_thread() -> Iterator[None]:
    """numpy's libraries make no threads of their own, here and in what is started meanwhile.

    OpenBLAS starts a thread a core when it is loaded, each of which spins before it sleeps: on 64
    cores seconds of CPU time in every process, for no product of matrices at all.
    """
    names = [name for name in MATH_THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _input(path: Path | None) -> Iterator[IO[bytes] | None]:
    if path is None:
        yield None
    else:
        with path.open("rb") as file:
            yield file


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[IO[bytes] | None]:
    """A draft of the file; raising _CutOutputError in the body drops it."""
    if path is None:
        yield None
        return
    with contextlib.suppress(_CutOutputError), files.open_draft(path) as file:
        yield file


def _close_group(child: subprocess.Popen[bytes]) -> None:
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
    with _input(command.stdin_file) as stdin, _output(command.stdout_file) as stdout:
        try:
            child = subprocess.Popen(
                command.argv,
                stdin=stdin or subprocess.PIPE,
                stdout=stdout or subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_make_environment(command),
                start_new_session=True,
            )
        except OSError as error:
            raise _make_missing_error(command, error) from error
        try:
            stdin_bytes = None if stdin else command.stdin.encode()
            out, err = child.communicate(stdin_bytes, timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            _close_group(child)
            raise ToolError(f"`{command}` did not end in {timeout_s:g} s") from error
        except BaseException:
            _close_group(child)
            raise
        result = _result(child, out, err)
        if stdout and child.returncode and not command.stdout_partial:
            raise _CutOutputError
    return result


def _result(child: subprocess.Popen[bytes], out: bytes | None, err: bytes) -> Result:
    return Result(
        returncode=child.returncode,
        stdout=(out or b"").decode(errors="replace"),
        stderr=err.decode(errors="replace"),
    )


def run_attached(command: Command) -> int:
    """Run on our own terminal: builds, shells, anything whose output the user reads live.

    Standard input is the terminal too, except where the command brings its own text.
    """
    sys.stdout.flush()
    try:
        with (
            tempfile.TemporaryFile() as stdin_file,
            subprocess.Popen(
                command.argv,
                env=_make_environment(command),
                stdin=_written(stdin_file, command.stdin) if command.stdin else None,
            ) as child,
        ):
            while True:
                try:
                    return child.wait()
                except KeyboardInterrupt:  # the child got it too, and ends in its own way
                    continue
    except OSError as error:
        raise _make_missing_error(command, error) from error


def read_lines(command: Command) -> Generator[str, None, int]:
    """Yield the lines of both outputs as they come; return when the program ends.

    The generator's value is the exit code.
    """
    child = _start_child(command, subprocess.PIPE)
    assert child.stdout is not None
    try:
        for line in child.stdout:
            yield line.decode(errors="replace").rstrip("\n")
        return child.wait()
    finally:
        child.stdout.close()
        if child.poll() is None:
            _close_group(child)


def _written(file: IO[bytes], text: str) -> IO[bytes]:
    """The file, to be read from the beginning of the text."""
    file.write(text.encode())
    file.seek(0)
    return file


def _start_child(
    command: Command, output: int | IO[bytes], *, own_session: bool = True
) -> subprocess.Popen[bytes]:
    with tempfile.TemporaryFile() as stdin_file:
        try:
            return subprocess.Popen(
                command.argv,
                stdin=_written(stdin_file, command.stdin),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_make_environment(command),
                start_new_session=own_session,
            )
        except OSError as error:
            raise _make_missing_error(command, error) from error


def drawn_lines(command: Command) -> Generator[str, None, int]:
    """`lines` of a program that draws on a terminal: it gets one, and ours shows the same.

    POSIX only. Ctrl-C reaches the program as if we were not in between, and is raised again
    when that has ended.
    """
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    size = fcntl.ioctl(sys.stderr.fileno(), termios.TIOCGWINSZ, bytes(8))
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    with os.fdopen(ours, "rb", buffering=0) as screen:
        with os.fdopen(theirs, "wb") as end:
            child = _start_child(command, end, own_session=False)
        try:
            yield from _passed_on(screen)
        except KeyboardInterrupt:
            collections.deque(_passed_on(screen), maxlen=0)
            raise
        finally:
            code = child.wait()
        return code


def _passed_on(screen: IO[bytes]) -> Iterator[str]:
    rest = b""
    while chunk := _read_screen(screen):
        sys.stderr.buffer.write(chunk)
        sys.stderr.buffer.flush()
        *complete, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in complete)


def _read_screen(screen: IO[bytes]) -> bytes:
    try:
        return screen.read(1 << 16)
    except OSError:  # Linux says so that nobody is left to write
        return b""


@contextlib.contextmanager
def in_background(
    command: Command, output: Path, copy: Callable[[IO[bytes], IO[bytes]], None]
) -> Iterator[Callable[[float], None]]:
    """Have `copy` append both outputs to a file while the body runs.

    The body gets a sleep of so many seconds that the program's end cuts short; the program ends
    with the body.
    """
    with files.open_to_append(output) as file:
        child = _start_child(command, subprocess.PIPE)
        assert child.stdout is not None
        copying = threading.Thread(target=copy, args=(child.stdout, file), daemon=True)
        copying.start()

        def pause(seconds: float) -> None:
            if child.poll() is not None:
                time.sleep(seconds)
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(seconds)

        try:
            yield pause
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(2.0)
        finally:
            if child.poll() is None:
                _close_group(child)
            copying.join(2.0)
            child.stdout.close()


def drive(steps: Steps[T]) -> T:
    """Run every command that `steps` yields, hand it the result, and return its value."""
    try:
        command = next(steps)
        while True:
            try:
                result = run(command)
            except KeyboardInterrupt as interrupt:  # steps may still clean up
                command = steps.throw(interrupt)
            else:
                command = steps.send(result)
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
