"""CPU seconds by file of tests, with those of the programs that the tests start.

    .venv/bin/python -m pytest -p bench.cpu_by_file --numprocesses=auto --dist=worksteal tests/unit

A plugin of pytest. Seconds of CPU can be compared on a machine that others use too; seconds of wall
time cannot.
"""

import collections
import os
from collections.abc import Generator
from pathlib import Path

import pytest

SHOWN = 25
_TICKS = os.sysconf("SC_CLK_TCK")
_STARTED = pytest.StashKey[float]()
_TIMES = slice(11, 15)  # utime, stime, cutime, cstime behind the name in /proc/PID/stat
_SECONDS = collections.defaultdict[str, float](float)


def read_cpu_seconds() -> float:
    """CPU seconds of this process, of children that ended, and of those that run (Linux)."""
    total = sum(os.times()[:4])
    for task in Path("/proc/self/task").glob("*/children"):
        for pid in task.read_text().split():
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            total += sum(map(int, stat[_TIMES])) / _TICKS
    return total


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    item.stash[_STARTED] = read_cpu_seconds()
    yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    try:
        yield
    finally:
        seconds = read_cpu_seconds() - item.stash[_STARTED]
        item.user_properties.append(("cpu_s", seconds))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the seconds, where pytest-xdist has processes in the one that starts them."""
    if report.when == "teardown":
        seconds = dict(report.user_properties).get("cpu_s", 0.0)
        assert isinstance(seconds, float)
        _SECONDS[report.nodeid.partition("::")[0]] += seconds


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section(f"CPU seconds by file: {sum(_SECONDS.values()):.1f} in all")
    rows = sorted(((seconds, file) for file, seconds in _SECONDS.items()), reverse=True)
    for seconds, file in rows[:SHOWN]:
        terminalreporter.write_line(f"{seconds:7.1f} {file}")
