"""CPU seconds by file of tests, with those of the programs that the tests start.

    .venv/bin/python -m pytest -p bench.cpu_by_file --numprocesses=auto --dist=worksteal tests/unit
    .venv/bin/python -m pytest -p bench.cpu_by_file --cpu-by=test --engines tests/live/registry

A plugin of pytest. Seconds of CPU can be compared on a machine that others use too; seconds of wall
time cannot. The forks of tests/forked_workers.py share a server, whose CPU would be no test's, so
these processes are those of pytest-xdist. --engines adds the seconds of engines, clusters and their
containers, which are right where one test runs at a time.
"""

import collections
import contextlib
import os
from collections.abc import Generator
from pathlib import Path

import pytest

SHOWN = 60
_TICKS = os.sysconf("SC_CLK_TCK")
_STARTED = pytest.StashKey[float]()
_ENGINES = ("dockerd", "containerd", "kube", "etcd", "coredns", "slurm", "munged", "registry")
"""What the names of daemons begin with that outlive a test; a shim ends with its container."""
_CONTAINERS = Path("/sys/fs/cgroup/cpuacct")
"""Its folders are the containers of Docker and of the cluster: cgroup v1 keeps what ended."""
_TIMES = slice(11, 15)  # utime, stime, cutime, cstime after the name in /proc/PID/stat
_SECONDS = collections.defaultdict[str, float](float)


def read_cpu_seconds() -> float:
    """CPU seconds of this process, of children that ended, and of those that run (Linux)."""
    total = sum(os.times()[:4])
    for task in Path("/proc/self/task").glob("*/children"):
        for pid in task.read_text().split():
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            total += sum(map(int, stat[_TIMES])) / _TICKS
    return total


def read_engine_seconds() -> float:
    """CPU seconds of the machine's engines, and of all containers so far."""
    total = sum(int(path.read_text()) / 1e9 for path in _CONTAINERS.glob("*/cpuacct.usage"))
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            head, _, tail = path.read_text().rpartition(") ")
            name = head.partition("(")[2]
            if name.startswith(_ENGINES) and "shim" not in name:
                total += sum(map(int, tail.split()[_TIMES])) / _TICKS
    return total


def read_seconds(config: pytest.Config) -> float:
    engines = read_engine_seconds() if config.getoption("--engines") else 0
    return read_cpu_seconds() + engines


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-by", choices=("file", "test"), default="file")
    parser.addoption("--engines", action="store_true")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    item.stash[_STARTED] = read_seconds(item.config)
    yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    try:
        yield
    finally:
        seconds = read_seconds(item.config) - item.stash[_STARTED]
        item.user_properties.append(("cpu_s", seconds))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the seconds, where there are processes of tests in the one that starts them."""
    if report.when == "teardown":
        seconds = dict(report.user_properties).get("cpu_s", 0.0)
        assert isinstance(seconds, float)
        _SECONDS[report.nodeid] += seconds


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    by = config.getoption("--cpu-by")
    terminalreporter.section(f"CPU seconds by {by}: {sum(_SECONDS.values()):.1f} in all")
    sums = collections.defaultdict[str, float](float)
    for nodeid, seconds in _SECONDS.items():
        sums[nodeid if by == "test" else nodeid.partition("::")[0]] += seconds
    rows = sorted(((seconds, name) for name, seconds in sums.items()), reverse=True)
    for seconds, name in rows[:SHOWN]:
        terminalreporter.write_line(f"{seconds:7.1f} {name}")
