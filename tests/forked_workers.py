"""Tests in forks of the process that collected them: `-p tests.forked_workers --forks=auto`.

Each process of pytest-xdist imports and collects the 4,600 tests itself: 6 s of CPU. A fork has
them, so more forks than CPUs cost nothing, and a test that waits leaves no CPU idle. A fork takes
units, which are tests of one file, and sends its reports through a pipe. A fork that dies fails its
test and ends the run.
"""

import os
import sys
import tempfile
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import IO, Any

import pytest

from gpu_profile.signals import make_child_hook
from tests.fork_server import exit_fast
from tests.fork_units import Durations, read_units, write_units

POLL_S = 1.0
"""A child of a dead fork holds the pipe open, so that its end is not seen there."""


@dataclass
class Fork:
    """`test` is the name and the place of the test that it runs."""

    pid: int
    messages: Connection
    test: tuple[str, Any] | tuple[()] = ()
    code: int | None = None

    def has_ended(self, *, wait: bool = False) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", default="0", metavar="N", help="run tests in N processes, or auto")


def pytest_configure(config: pytest.Config) -> None:
    if choose_count(config):
        config.pluginmanager.register(Durations(config))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run all tests in forks, if --forks says so. None: pytest's own loop runs them."""
    count = choose_count(session.config)
    if not count or session.testsfailed or session.config.option.collectonly:
        return None
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    with tempfile.TemporaryFile(buffering=0) as queue:
        write_units(queue, session)
        if forked := sys.modules.get("tests.forked"):  # a test that was collected uses it
            forked.share_server()
        forks = [start_fork(session, number, queue) for number in range(count)]
        try:
            relay_messages(session, forks, queue)
        finally:
            queue.truncate(0)
            for fork in forks:
                fork.messages.close()
                fork.has_ended(wait=True)
    stop_where_asked(session)
    return True


def choose_count(config: pytest.Config) -> int:
    """Two forks a CPU: one runs while another waits, such as for a grace period.

    A fork reads anew what others have cached, and copies the pages that it writes. With 4,600 tests
    on two CPUs four forks took 138 s of CPU and 83 s, ten took 163 and 95.
    """
    option = config.getoption("--forks")
    of_xdist = hasattr(config, "workerinput") or config.pluginmanager.hasplugin("dsession")
    if of_xdist or config.option.usepdb:
        return 0
    return 2 * (os.cpu_count() or 1) if option == "auto" else int(option)


def start_fork(session: pytest.Session, number: int, queue: IO[bytes]) -> Fork:
    reader, writer = Pipe(duplex=False)
    child_hook = make_child_hook(own_session=True)
    if not (pid := os.fork()):
        if child_hook:
            child_hook()
        reader.close()
        exit_fast(run_fork(session, number, queue, writer))
    writer.close()
    return Fork(pid, reader)


def run_fork(session: pytest.Session, number: int, queue: IO[bytes], messages: Connection) -> int:
    """Run units in this fork until there are none. Returns its exit code."""
    try:
        sender = become_worker(session.config, number, messages)
        run_units(session, queue)
        sender.send()
    except KeyboardInterrupt:
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def become_worker(config: pytest.Config, number: int, messages: Connection) -> "Sender":
    """Give this process its own captured output and temporary folder, and have it send reports."""
    # The variable tells fixtures that several processes share the folder above theirs.
    os.environ["PYTEST_XDIST_WORKER"] = name = f"fork{number}"
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    folders: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    folders._basetemp = folders.mktemp(name, numbered=False)
    config.pluginmanager.unregister(name="terminalreporter")
    sender = Sender(config, messages)
    config.pluginmanager.register(sender)
    return sender


def run_units(session: pytest.Session, queue: IO[bytes]) -> None:
    numbers = read_units(queue)
    number = next(numbers, None)
    try:
        while number is not None and not (session.shouldfail or session.shouldstop):
            following = next(numbers, None)
            test = session.items[number]
            next_test = None if following is None else session.items[following]
            session.config.hook.pytest_runtest_protocol(item=test, nextitem=next_test)
            number = following
    finally:
        session._setupstate.teardown_exact(None)


@dataclass(eq=False)  # pluggy keeps plugins in sets
class Sender:
    """The hooks of a fork: their calls go to the process that started it, once a test.

    What a test has to tell goes with the start of the next one: a message takes 0.1 ms of CPU on
    both sides, and a test has five calls.
    """

    config: pytest.Config
    messages: Connection
    calls: list[tuple[str, Any]] = field(default_factory=list)

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[Any, ...]) -> None:
        self.calls.append(("start", (nodeid, location)))
        self.send()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self.config.hook.pytest_report_to_serializable
        self.calls.append(("report", hook(config=self.config, report=report)))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[Any, ...]) -> None:
        self.calls.append(("finish", (nodeid, location)))

    def send(self) -> None:
        self.messages.send(self.calls)
        self.calls = []


def relay_messages(session: pytest.Session, forks: Iterable[Fork], queue: IO[bytes]) -> None:
    """Call the hooks here for what the forks send, until all have ended."""
    running = {fork.messages: fork for fork in forks}
    while running:
        ready = [running[messages] for messages in wait([*running], POLL_S)]  # type: ignore[index]
        ended = [fork for fork in ready if not relay_calls(session.config, fork)]
        if not ready:
            ended = [fork for fork in running.values() if fork.has_ended()]
        for fork in ended:
            report_death(session, running.pop(fork.messages))
        if session.shouldfail or session.shouldstop:
            queue.truncate(0)


def relay_calls(config: pytest.Config, fork: Fork) -> bool:
    """Call the hooks for the next message. Returns whether there was one."""
    try:
        calls = fork.messages.recv()
    except EOFError:
        return False
    for kind, content in calls:
        if kind == "start":
            fork.test = content
        elif kind == "finish":
            fork.test = ()
            config.hook.pytest_runtest_logfinish(nodeid=content[0], location=content[1])
        else:
            relay_report(config, content)
    return True


def relay_report(config: pytest.Config, content: Any) -> None:
    hooks = config.hook
    report = hooks.pytest_report_from_serializable(config=config, data=content)
    if config.option.verbose > 0 and (report.when == "call" or not report.passed):
        hooks.pytest_runtest_logstart(nodeid=report.nodeid, location=report.location)
    hooks.pytest_runtest_logreport(report=report)


def report_death(session: pytest.Session, fork: Fork) -> None:
    """Report the test in which a fork ended as failed, and end the run."""
    fork.has_ended(wait=True)
    if not fork.code and not fork.test:
        return
    session.shouldstop = reason = f"the process of this test ended with {fork.code}"
    if fork.test:
        nodeid, location = fork.test
        report = pytest.TestReport(nodeid, location, {}, "failed", reason, "call")
        session.config.hook.pytest_runtest_logreport(report=report)


def stop_where_asked(session: pytest.Session) -> None:
    """As pytest's own loop does."""
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
