"""Python programs of a project in children of a fork server, which has imported its modules."""

import atexit
import contextlib
import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, TypeAlias

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.settings.places import ROOT
from tests.fork_server import Call

Server: TypeAlias = "subprocess.Popen[bytes]"
_START_VARIABLES = ("PYTHON", "LC_", "LANG")
"""Variables that Python reads when it starts begin with one of these."""
_LIMIT_S = 600.0
"""A call that writes nothing for so long is killed, and fails its test."""


def start_python(
    words: Sequence[str],
    directory: Path,
    env: Mapping[str, str],
    stdin: str = "",
    unset: Sequence[str] = (),
) -> Result:
    """Run `python WORDS` to its end in a new Python. `unset`: words of env(1)."""
    argv = ("env", *unset, f"--chdir={directory}", sys.executable, *words)
    return process.run(Command(argv=argv, env=env, stdin=stdin))


def run_python(
    words: Sequence[str],
    directory: Path,
    env: Mapping[str, str],
    project: Path = ROOT,
    stdin: str = "",
    without: Collection[str] = (),
) -> Result:
    """Run `python -m MODULE …` or `python SCRIPT …` in a child of the project's fork server.

    `without`: our variables that it does not get.

    The result is that of start_python, which runs it where a child would be no substitute: with
    other variables that Python reads when it starts, or where the system has no pidfd_open.
    """
    kept = {name: value for name, value in os.environ.items() if name not in without}
    environ = {**kept, **env}
    variables = _choose_start_variables(os.environ)
    if not hasattr(os, "pidfd_open") or _choose_start_variables(environ) != variables:
        unset = tuple(word for name in without for word in ("-u", name))
        return start_python(words, directory, env, stdin, unset)
    call = Call(
        words=words,
        directory=str(directory.absolute()),
        environ=environ,
        umask=_read_umask(),
    )
    return _fork(*_start_server(project, tuple(variables.items())), call, stdin)


def _choose_start_variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(_START_VARIABLES)}


def _read_umask() -> int:
    # There is no call that only reads it.
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


@functools.cache
def _start_server(
    project: Path, environ: tuple[tuple[str, str], ...]
) -> tuple[Server, socket.socket]:
    """Start a server of this process, whose Python has these variables, and open its socket."""
    # SEQPACKET keeps requests apart, and tells the end of the other side; a stream does the second
    # alone.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            (sys.executable, "-m", "tests.fork_server", str(theirs.fileno())),
            cwd=project,
            env={**dict(environ), **dict.fromkeys(process.MATH_THREADS, "1")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    atexit.register(_end_server_of, os.getpid(), server, ours)
    return server, ours


def share_server() -> None:
    """Start the server that later forks of this process use, in place of one each: 0.8 s of CPU."""
    if hasattr(os, "pidfd_open"):
        _start_server(ROOT, tuple(_choose_start_variables(os.environ).items()))


def _end_server_of(caller: int, server: Server, requests: socket.socket) -> None:
    """End it at the end of its caller: a fork of that would wait for the others."""
    if os.getpid() == caller:
        _end_server(server, requests)


def _end_server(server: Server, requests: socket.socket) -> str:
    """Return what the server wrote to stderr: nothing, or its traceback."""
    requests.close()
    return server.communicate()[1].decode(errors="replace")


def _save_text(text: str) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(text.encode(errors="surrogateescape"))
    file.seek(0)
    return file


@contextlib.contextmanager
def _open_pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    read, write = os.pipe()
    with (
        os.fdopen(read, "rb", buffering=0) as reader,
        os.fdopen(write, "wb", buffering=0) as writer,
    ):
        yield reader, writer


def _fork(server: Server, requests: socket.socket, call: Call, text: str) -> Result:
    with contextlib.ExitStack() as stack:
        content = stack.enter_context(_save_text(json.dumps(asdict(call))))
        (stdin, no_input), *outputs = [stack.enter_context(_open_pipe()) for _ in range(4)]
        if text:
            stdin = stack.enter_context(_save_text(text))
        readers, writers = zip(*outputs, strict=True)
        answers, *streams = readers
        sent = (content, writers[0], stdin, *writers[1:])
        with contextlib.suppress(BrokenPipeError):  # of a server that could not start
            socket.send_fds(requests, [b"call"], [file.fileno() for file in sent])
        for file in (no_input, *writers):
            file.close()
        if not (pid := answers.readline()):
            _start_server.cache_clear()
            raise RuntimeError(_end_server(server, requests))
        try:
            stdout, stderr = _read_streams(streams)
            return Result(returncode=int(answers.readline()), stdout=stdout, stderr=stderr)
        except BaseException:
            os.killpg(int(pid), signal.SIGKILL)
            raise


def _read_streams(streams: list[IO[bytes]]) -> list[str]:
    """Read all pipes as they fill, to their ends."""
    content = {stream.fileno(): bytearray() for stream in streams}
    with selectors.DefaultSelector() as selector:
        for number in content:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map():
            if not (ready := selector.select(_LIMIT_S)):
                raise TimeoutError(f"no output for {_LIMIT_S:.0f} s")
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                content[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
    return [data.decode(errors="replace") for data in content.values()]
