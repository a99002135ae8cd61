"""What several unit tests share."""

import os
from pathlib import Path

import pytest

from tests.project_copy import copy_with_toys


@pytest.fixture(scope="session")
def toy_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the toys of tests/toys: one a process of tests."""
    return copy_with_toys(tmp_path_factory.mktemp("toys"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three processes for two CPUs: a quarter of the tests' time is waiting, such as for a grace
    period. Each process takes 7 s of CPU to import and to collect the tests."""
    return (3 * (os.cpu_count() or 1) + 1) // 2
