"""What the image's tests need of the machine."""

from collections.abc import Callable

import pytest

from gpu_profile import process


@pytest.fixture(scope="session")
def embedded(docker: None, require: Callable[[str, object], None]) -> None:
    """An engine, and what makes the embedded base on it."""
    missing = process.which("debootstrap") is None
    require("image", missing and "debootstrap is not installed: no embedded base")
