"""A process that has imported the modules of all verbs, and forks a child for each call.

`python -m tests.fork_server FD` takes requests of tests/forked.py from a socket: the descriptors of
a Call in JSON, of a pipe for the answers, and of the child's stdin, stdout and stderr. The answers
are the child's process id and, at its end, its exit code, a line each.

A child has the call's words, variables, directory and streams before any code of the verbs runs. It
goes on as `python WORDS` does, and saves the start of Python and the imports: 0.3 s of CPU.

The server computes nothing: it has a single thread when it forks. It ends when its socket closes,
which is at the caller's end, and its children get SIGTERM then.
"""

import atexit
import contextlib
import gc
import importlib
import json
import multiprocessing.context
import os
import runpy
import selectors
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import invoke.main  # noqa: F401 - imported before the fork

import gpu_profile
from gpu_profile.launchers.agent.job_directory import AGENT
from gpu_profile.signals import make_child_hook

DESCRIPTORS = 5  # of a request: call, answers, stdin, stdout, stderr


@dataclass(frozen=True, kw_only=True)
class Call:
    """`python -m MODULE` or `python SCRIPT` in a directory, with these variables and umask."""

    words: Sequence[str]
    directory: str
    environ: Mapping[str, str]
    umask: int


@dataclass
class Server:
    """`running` has the process id and the pipe for answers of each child, by its pidfd."""

    requests: socket.socket
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    running: dict[int, tuple[int, int]] = field(default_factory=dict)

    def serve(self) -> Call | None:
        """Return the call in each child, and None in the server when the caller has ended."""
        child_hook = make_child_hook(own_session=True)
        self.selector.register(self.requests, selectors.EVENT_READ)
        while True:
            for key, _ in self.selector.select():
                if key.fd in self.running:
                    self._report_end(key.fd)
                    continue
                _, request, _, _ = socket.recv_fds(self.requests, 1, DESCRIPTORS)
                if not request:
                    return None
                if not (pid := os.fork()):
                    self._close()
                    # Ctrl-C on the terminal of the tests is theirs; a test ends a call by its
                    # process group.
                    os.setsid()
                    if child_hook:
                        child_hook()
                    return take_streams(*request)
                self._watch(pid, *request)

    def _watch(self, pid: int, call: int, answers: int, *streams: int) -> None:
        for descriptor in (call, *streams):
            os.close(descriptor)
        handle = os.pidfd_open(pid)
        self.running[handle] = (pid, answers)
        self.selector.register(handle, selectors.EVENT_READ)
        _write_line(answers, pid)

    def _report_end(self, handle: int) -> None:
        pid, answers = self.running.pop(handle)
        _, status = os.waitpid(pid, 0)
        _write_line(answers, os.waitstatus_to_exitcode(status))
        self.selector.unregister(handle)
        os.close(answers)
        os.close(handle)

    def _close(self) -> None:
        """Close the server's descriptors in a child."""
        self.selector.close()
        self.requests.close()
        for handle, (_, answers) in self.running.items():
            os.close(answers)
            os.close(handle)


def _write_line(answers: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the caller was interrupted
        os.write(answers, f"{number}\n".encode())


def take_streams(call: int, answers: int, *streams: int) -> Call:
    """Read the call, and replace the server's streams. Python's own objects for them stay."""
    os.close(answers)
    with open(call, "rb") as file:
        content = Call(**json.load(file))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    return content


def run_call(call: Call) -> None:
    """Take the call's variables, umask, directory and words, and run what the words name."""
    # Not `os.environ = …`: the C library, and so each child, has the variables that putenv() set.
    os.environ.clear()
    os.environ.update(call.environ)
    # Python reads TZ when it starts, which was in the server.
    time.tzset()
    os.umask(call.umask)
    os.chdir(call.directory)
    if call.words[0] == "-m":
        sys.path[0] = os.getcwd()  # noqa: PTH109 - what Python has there
        sys.argv[1:] = call.words[2:]
        runpy.run_module(call.words[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(call.words[0]).parent)
        sys.argv[:] = call.words
        runpy.run_path(call.words[0], run_name="__main__")


def become_call(call: Call) -> None:
    """Run the call, and end this process as its Python would."""
    try:
        run_call(call)
    except SystemExit as end:
        exit_fast(end.code)
        raise
    exit_fast(0)


def import_verbs() -> None:
    """Import all modules. pkgutil finds none in `verbs`, a folder without __init__.py."""
    (package,) = map(Path, gpu_profile.__path__)
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package.parent).with_suffix("").parts
        importlib.import_module(".".join(name).removesuffix(".__init__"))
    importlib.import_module("mmap")
    importlib.import_module("numpy.ma")  # at its first use numpy.unique imports it: 22 ms a call
    importlib.import_module("boto3")  # of verbs that read from a bucket: 0.3 s a call


def import_agent() -> None:
    """Import the agent's programs, and so the modules they share: 8 ms of each of 150 calls."""
    sys.path.insert(0, str(AGENT))
    for name in ("job", "profile_ranks", "record_window"):
        importlib.import_module(name)
    sys.path.remove(str(AGENT))


def fork_workers() -> None:
    """Let a call fork the workers that read its reports.

    The server of multiprocessing would import our modules once more: 0.6 s of CPU a call.
    tests/unit/analysis/multi_report and the starts in tests/live have the usual one.
    """
    contexts = multiprocessing.context._concrete_contexts  # type: ignore[attr-defined]
    contexts["forkserver"] = contexts["fork"]


def exit_fast(code: object) -> None:
    """End a child without taking its modules apart, which takes 40 of 60 ms of a short call.

    Threads are waited for, functions of atexit run, and the output is written, as Python does.
    Another end than by a number is left to Python.
    """
    if code is None or isinstance(code, int):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        # 8 bits, as exit(3) keeps.
        os._exit((code or 0) & 0xFF)


def main() -> None:
    import_verbs()
    import_agent()
    fork_workers()
    tasks = os.listdir("/proc/self/task")  # noqa: PTH208 - the threads, also those of libraries
    assert len(tasks) == 1, "an import started a thread, which a fork would lose"
    # A collection would write to the pages of all modules, and copy them in each child.
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)  # as tests/conftest.py: up to 5 % of the time of a verb
    call = Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    if call is not None:
        become_call(call)


if __name__ == "__main__":
    main()
