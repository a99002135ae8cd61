"""What several unit tests share."""

from pathlib import Path

import pytest

from tests.project_copy import copy_with_toys


@pytest.fixture(scope="session")
def toy_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the toys of tests/toys: one a process of tests."""
    return copy_with_toys(tmp_path_factory.mktemp("toys"))
