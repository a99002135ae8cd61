"""Real parts that several live tests share, and which tests may run side by side."""

import os
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.live.side_by_side import ClusterLock, get_mode

CACHED = Path.home() / ".cache" / "gpu-profile" / "nsys" / "nsys"
HERE = Path(__file__).parent
FIRST = (
    *("kubernetes alone", "slurm", "image/test_locked_builds.py", "registry"),
    *("kubernetes/test_profile_kubernetes.py", "image/test_toggles.py", "installed"),
    *("kubernetes/test_faults_pods.py", "ssh", "kubernetes/test_injector_live.py"),
)
"""The groups that take minutes: pytest-xdist begins with them, and fills up with single tests."""
SINGLE = (
    "test_container_verbs.py",
    "test_docker_profile.py",
    "test_nsys_cpu.py",
    "host/test_host.py",
)
"""Files whose tests share nothing."""
WHOLE = ("slurm", "ssh", "registry", "installed")
"""Folders whose tests share a server, a queue or an image."""


def get_group(item: pytest.Item) -> str:
    """Return the name of the tests that run in one process, one after the other."""
    path = item.path.relative_to(HERE)
    if str(path) in SINGLE:
        return ""
    if get_mode(item) == "alone":
        return "kubernetes alone"
    return path.parts[0] if path.parts[0] in WHOLE else str(path)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not getattr(config.option, "loadgroup", False):
        return
    groups = {item: get_group(item) for item in items if HERE in item.path.parents}
    for item, group in groups.items():
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
    ranks = {group: number - len(FIRST) for number, group in enumerate(FIRST)}
    items.sort(key=lambda item: ranks.get(groups.get(item, ""), 0 if groups.get(item) else 1))


LOCK = ClusterLock()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Tests that are alone on the cluster follow each other without letting others in between."""
    LOCK.take(get_mode(item))
    try:
        return (yield)
    finally:
        if get_mode(nextitem) != "alone":
            LOCK.give_back()


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
