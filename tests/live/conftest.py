"""Real parts that several live tests share."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

CACHED = Path.home() / ".cache" / "gpu-profile" / "nsys" / "nsys"


@pytest.fixture(scope="session")
def nsys(require: Callable[[str, object], None]) -> str:
    """A real nsys: the one that NSYS names, the one on PATH, or what nsys-oracle.sh unpacked."""
    cached = str(CACHED) if CACHED.exists() else None
    found = os.environ.get("NSYS") or shutil.which("nsys") or cached
    require("nsys", not found and f"not here; tests/live/nsys-oracle.sh {CACHED.parent} gets one")
    return str(found)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB. Mounting one takes root."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
