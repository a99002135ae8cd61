"""The lock: what is asked, what is pinned, what drifted, and what a build refuses."""

import dataclasses
from pathlib import Path

import pytest

from gpu_profile.errors import GateError, SettingsError
from gpu_profile.lock import file
from gpu_profile.lock.file import LockPart
from tests.unit.lock.lock_web import BASE, DIGEST, load, resolve


def test_text_is_sorted_and_reads_back() -> None:
    lock = resolve(load(INSTALL_EFA="true"))
    text = file.render_lock(lock)
    assert file.parse_lock(text) == lock
    assert file.render_lock(file.parse_lock(text)) == text
    sections = [line for line in text.splitlines() if line.startswith("[")]
    assert sections == sorted(sections)
    assert "pinned EFA_VERSION = 1.50.0\n" in text
    assert text.startswith("# What the image is made of, exactly.")


def test_applied_in_place_of_what_was_asked() -> None:
    settings = load(NSYS_VERSION="latest")
    applied = file.apply_lock(settings, resolve(settings))
    assert applied.base_image == f"{BASE}@{DIGEST}"
    assert applied.component["NSYS_VERSION"] == "2026.10.1"
    file.refuse_unlocked(applied)
    assert file.apply_lock(settings, {}) == settings


def test_decisions_are_pinned_too() -> None:
    settings = load(BASE_IMAGE="auto", INSTALL_TORCH="auto", NSYS_SOURCE="auto")
    made = {**settings.component, "INSTALL_TORCH": "cpu", "NSYS_SOURCE": "debian"}
    base = "gpu-profile-base:0123456789ab"
    decided = dataclasses.replace(settings, base_image=base, component=made)
    lock = resolve(settings, decided)
    assert lock["base"] == LockPart(
        {"BASE_IMAGE": "auto", "ARCHITECTURE": "amd64"}, {"BASE_IMAGE": "embedded"}
    )
    assert lock["nsys"].pinned == {"NSYS_SOURCE": "debian"}
    applied = file.apply_lock(settings, lock)
    assert (applied.base_image, applied.component["INSTALL_TORCH"]) == ("embedded", "cpu")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"BASE_IMAGE": "debian:13"}, f"BASE_IMAGE is 'debian:13', was '{BASE}'"),
        ({"NSYS_VERSION": "2026.9.1"}, "NSYS_VERSION is '2026.9.1', was '2026.4.1'"),
        ({"INSTALL_EFA": "true"}, "efa is not in it"),
        ({"INSTALL_TORCH": "cpu"}, "INSTALL_TORCH is 'cpu', was 'cuda'"),
    ],
)
def test_drift(change: dict[str, str], line: str) -> None:
    lock = resolve(load())
    file.check_lock(load(), lock)
    with pytest.raises(GateError) as caught:
        file.check_lock(load(**change), lock)
    assert line in str(caught.value)
    assert caught.value.exit_code == 8
    with pytest.raises(GateError, match=r"gpu-profile\.lock is not of these settings"):
        file.apply_lock(load(**change), lock)


def test_a_lock_is_of_one_architecture() -> None:
    lock = resolve(load())
    assert file.apply_lock(load(), lock, "amd64") == file.apply_lock(load(), lock)
    with pytest.raises(GateError, match="the machine is arm64, was amd64"):
        file.apply_lock(load(), lock, "arm64")


def test_less_is_no_drift() -> None:
    lock = resolve(load(INSTALL_EFA="true"))
    file.check_lock(load(), lock)
    assert file.apply_lock(load(), lock).component["INSTALL_EFA"] is False


def test_no_lock(tmp_path: Path) -> None:
    assert file.read_lock(tmp_path / "gpu-profile.lock") == {}
    with pytest.raises(GateError, match="there is no"):
        file.check_lock(load(), {})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "nsys is not locked: NSYS_SHA256 not exact"),
        (
            {"NSYS_VERSION": "latest"},
            "nsys is not locked: NSYS_VERSION and NSYS_SHA256 not exact",
        ),
        ({"NSYS_SOURCE": "debian"}, "torch is not locked: TORCH_VERSION and TORCH_PACKAGES"),
        (
            {"NSYS_SOURCE": "base", "INSTALL_TORCH": "base", "INSTALL_EFA": "true"},
            "efa is not locked: EFA_SHA256 not exact",
        ),
    ],
)
def test_builds_refuse_unlocked_downloads(values: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        file.refuse_unlocked(load(**values))
    assert "`invoke lock` pins it; `build --unlocked`" in str(caught.value)


def test_what_the_distribution_serves_needs_no_lock() -> None:
    file.refuse_unlocked(load(NSYS_SOURCE="debian", INSTALL_TORCH="cpu", TORCH_URL=""))


@pytest.mark.parametrize(
    "text", ["asked A = b", "[base]\nnonsense", "[base]\npinned a = b", "[base]\nasked A=b", "[X]"]
)
def test_damaged_locks(text: str) -> None:
    with pytest.raises(SettingsError, match=r"gpu-profile\.lock:\d: .* is not a line of a lock"):
        file.parse_lock(text)


def test_a_password_of_a_url_stays_out_of_the_lock_and_reaches_the_build() -> None:
    plain = load()
    settings = load(NSYS_URL=str(plain.component["NSYS_URL"]).replace("://", "://me:hunter2@"))
    written = resolve(plain)
    text = file.render_lock(written)
    assert file.list_drift(settings, written) == ()
    assert (
        file.apply_lock(settings, written).component["NSYS_URL"] == settings.component["NSYS_URL"]
    )
    assert file.render_lock(resolve(settings, plain)) == text
    assert "hunter2" not in file.render_lock(resolve(settings, plain))
