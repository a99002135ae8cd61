"""What several unit tests share."""

import os
import sys
from pathlib import Path

import pytest

from tests.project_copy import copy_with_toys
from tests.recordings import make_short_run
from tests.unit.shared_folder import find_shared_folder


@pytest.fixture(scope="session", autouse=True)
def python_on_path() -> None:
    """`python3` is the Python of these tests, where programs of ours ask for it by name.

    The machine's own may be another version, or a shim of pyenv: 0.09 s of CPU a start for 0.01.
    """
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


@pytest.fixture(scope="session")
def toy_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the toys of tests/toys: one a process of tests."""
    return copy_with_toys(tmp_path_factory.mktemp("toys"))


@pytest.fixture(scope="session")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of rank0.sqlite to rank3.sqlite of tests/recordings.py, which all processes of
    tests share: a test copies what it changes.
    """
    return make_short_run(find_shared_folder(tmp_path_factory) / "short")
