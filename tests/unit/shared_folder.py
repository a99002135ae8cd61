"""The folder that all processes of one run of the tests share."""

import os
from pathlib import Path

import pytest


def find_shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return it. Its files appear by rename: another process of tests may write the same one."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
