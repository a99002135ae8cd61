"""How each kind of download is pinned: packages, archives, repositories by tag, wheels."""

from hashlib import sha256
from pathlib import Path

import pytest

from gpu_profile.components.table import COMPONENTS
from gpu_profile.errors import SettingsError
from gpu_profile.lock import file
from tests.unit.lock.lock_web import BASE, DIGEST, load, resolve


def test_everything_is_pinned() -> None:
    lock = resolve(load(NSYS_VERSION="latest", INSTALL_EFA="true", EFA_VERSION="latest"))
    assert lock["base"].pinned == {"BASE_IMAGE": f"{BASE}@{DIGEST}"}
    nsys = lock["nsys"].pinned
    assert (nsys["NSYS_VERSION"], nsys["NSYS_SHA256"]) == (
        "2026.10.1",
        sha256(b"a key").hexdigest(),
    )
    efa = lock["efa"].pinned
    archive = sha256(b"the archive").hexdigest()
    assert (efa["EFA_VERSION"], efa["EFA_SHA256"]) == ("1.51.0", archive)
    assert lock["torch"].pinned["TORCH_VERSION"] == "2.9.1"


@pytest.mark.parametrize(
    ("revision", "version", "commit"),
    [("v2.19.6", "v2.19.6", "a"), ("2.19.6", "2.19.6", "a"), ("latest", "v2.20.0", "b")],
)
def test_a_repository_is_pinned_by_commit(revision: str, version: str, commit: str) -> None:
    values = {"INSTALL_TESTS": "true", "NCCL_SOURCE": "source", "NCCL_URL": "https://git.test/nccl"}
    lock = resolve(
        load(
            **values,
            NCCL_TESTS_URL="https://git.test/tests",
            NCCL_TESTS_VERSION=revision,
            NCCL_TESTS_COMMIT="",
        )
    )
    assert lock["nccl-tests"].pinned["NCCL_TESTS_VERSION"] == version
    assert lock["nccl-tests"].pinned["NCCL_TESTS_COMMIT"] == commit * 40
    assert lock["nccl"].pinned["NCCL_COMMIT"] == "c" * 40


def test_a_tag_that_moved_is_refused() -> None:
    moved = load(INSTALL_TESTS="true", NCCL_SOURCE="base", NCCL_TESTS_URL="https://git.test/tests")
    with pytest.raises(SettingsError, match=r"has a{40} under v2\.19\.6, and NCCL_TESTS_COMMIT is"):
        resolve(moved)


def test_a_checksum_by_default_is_of_the_default_version() -> None:
    lock = resolve(
        load(
            INSTALL_TESTS="true",
            NCCL_SOURCE="base",
            NCCL_TESTS_URL="https://git.test/tests",
            NCCL_TESTS_VERSION="v2.20.0",
        )
    )
    assert lock["nccl-tests"].pinned["NCCL_TESTS_COMMIT"] == "b" * 40


def test_archives_and_checkouts(tmp_path: Path) -> None:
    values = {"INSTALL_TESTS": "true", "NCCL_SOURCE": "base"}
    lock = resolve(load(**values, NCCL_TESTS_URL="https://git.test/tests.tar.gz"))
    assert lock["nccl-tests"].pinned["NCCL_TESTS_SHA256"] == sha256(b"sources").hexdigest()
    checkout = load(**values, NCCL_TESTS_URL=str(tmp_path), NCCL_TESTS_COMMIT="")
    assert "NCCL_TESTS_COMMIT" not in resolve(checkout)["nccl-tests"].pinned
    others = {"NSYS_SOURCE": "base", "INSTALL_TORCH": "base"}
    nvcc = f"nvidia-cuda-nvcc==13.0.96 --hash=sha256:{'0' * 64}"
    local = {**values, **others, "NCCL_TESTS_URL": str(tmp_path)}
    file.refuse_unlocked(load(**local, NCCL_TESTS_PACKAGES=nvcc))
    with pytest.raises(SettingsError, match="NCCL_TESTS_PACKAGES not exact"):
        file.refuse_unlocked(load(**local))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"NSYS_VERSION": "2020.1"}, "NSYS_VERSION is 2020.1, which .* It has 2026.10.1, 2026.9.1"),
        ({"NSYS_SHA256": "0" * 64}, "has sha256 .*, and NSYS_SHA256 is 000"),
        ({"INSTALL_EFA": "true", "EFA_SHA256": "1" * 64}, "and EFA_SHA256 is 111"),
    ],
)
def test_what_is_not_there_is_not_locked(values: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        resolve(load(**values))


def test_every_checksum_of_a_component_has_a_source() -> None:
    keys = {key.name for component in COMPONENTS for key in component.keys}
    pinned = {pin for c in COMPONENTS for source in c.sources for pin in source.pins}
    assert {key for key in keys if key.endswith(("_SHA256", "_COMMIT", "_PACKAGES"))} <= pinned
