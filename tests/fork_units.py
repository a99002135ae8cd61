"""Units: tests of one file that a fork of tests/forked_workers.py takes, the longest first."""

import os
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import IO

import pytest

UNIT = 16
"""The most tests of a unit, unless they share a fixture: a long file is shared among the forks. In
smaller units fewer tests find what another of their file has read and cached."""
_ENDS = struct.Struct("II")  # of a unit: its first test, and the one after its last
_CACHED = "forks/seconds"
"""Of a test, by file, in pytest's cache."""


class Durations:
    """Keeps the seconds of a test by file for the order of the next run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tests: defaultdict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path = report.nodeid.partition("::")[0]
        self.seconds[path] += report.duration
        self.tests[path].add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        means = {path: self.seconds[path] / len(tests) for path, tests in self.tests.items()}
        if cache := find_cache(self.config):
            cache.set(_CACHED, cache.get(_CACHED, {}) | means)


def find_cache(config: pytest.Config) -> pytest.Cache | None:
    """Return pytest's cache. `-p no:cacheprovider` leaves out the attribute."""
    return getattr(config, "cache", None)


def write_units(queue: IO[bytes], session: pytest.Session) -> None:
    """Write the ends of all units, the longest first. Forks share the place where they read on."""
    cache = find_cache(session.config)
    known = cache.get(_CACHED, {}) if cache else {}

    def estimate_seconds(unit: range) -> float:
        path = session.items[unit.start].nodeid.partition("::")[0]
        return float(known.get(path, 1.0)) * len(unit)

    units = sorted(list_units(session.items), key=estimate_seconds, reverse=True)
    queue.write(b"".join(_ENDS.pack(unit.start, unit.stop) for unit in units))
    queue.seek(0)


def list_units(tests: Sequence[pytest.Item]) -> Iterator[range]:
    first = 0
    for _, group in groupby(tests, key=lambda test: test.path):
        of_file = list(group)
        size = len(of_file) if any(map(shares_fixture, of_file)) else UNIT
        end = first + len(of_file)
        yield from (range(start, min(start + size, end)) for start in range(first, end, size))
        first = end


def shares_fixture(test: pytest.Item) -> bool:
    """Return whether the test has a fixture that is made once for its module or class."""
    definitions = test._fixtureinfo.name2fixturedefs if isinstance(test, pytest.Function) else {}
    scopes = {fixture.scope for chain in definitions.values() for fixture in chain}
    return bool(scopes & {"module", "class"})


def read_units(queue: IO[bytes]) -> Iterator[int]:
    """Yield the numbers of tests. Each read(2) moves the place of all forks on."""
    while ends := os.read(queue.fileno(), _ENDS.size):
        yield from range(*_ENDS.unpack(ends))
