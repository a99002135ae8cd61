"""What is installed against what is pinned: the same numbers in the words of their sources."""

import pytest

from gpu_profile.errors import ReportError
from gpu_profile.lock import installed as manifest
from gpu_profile.lock.file import LockPart


@pytest.mark.parametrize(
    ("key", "wanted", "name", "installed"),
    [
        ("NSYS_VERSION", "2026.4.1", "nsys", "2026.4.1.191-264138605071v0"),
        ("TORCH_VERSION", "2.9.1", "torch", "2.9.1+cu130"),
        ("NCCL_VERSION", "v2.30.7-1", "nccl", "2.30.7"),
        ("NCCL_TESTS_VERSION", "v2.19.6", "nccl-tests", "2.19.6"),
        ("GDRCOPY_VERSION", "v2.6", "gdrcopy", "2.6.0"),
        ("EFA_VERSION", "1.50.0", "efa_installer", "1.50.0"),
    ],
)
def test_the_same_version(key: str, wanted: str, name: str, installed: str) -> None:
    assert manifest.list_differences({name: installed}, {key: wanted}) == ()


@pytest.mark.parametrize(
    ("installed", "line"),
    [
        ({"nsys": "2026.4.10"}, "NSYS_VERSION is pinned to 2026.4.1, installed is 2026.4.10"),
        ({}, "NSYS_VERSION is pinned to 2026.4.1, installed is none"),
    ],
)
def test_another_version(installed: dict[str, str], line: str) -> None:
    assert manifest.list_differences(installed, {"NSYS_VERSION": "2026.4.1"}) == (line,)


def test_what_is_not_pinned_may_be_any() -> None:
    assert (
        manifest.list_differences({"torch": "2.6.0"}, {"TORCH_VERSION": "", "EFA_URL": "x"}) == ()
    )


def test_pins_of_a_lock() -> None:
    lock = {"nsys": LockPart(pinned={"NSYS_VERSION": "2026.4.1"}), "base": LockPart()}
    assert manifest.pinned_by_lock(lock) == {"NSYS_VERSION": "2026.4.1"}


def test_components() -> None:
    assert manifest.parse_components('{"components": {"nsys": "2026.4.1"}}') == {"nsys": "2026.4.1"}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"components": 1}'])
def test_no_manifest(text: str) -> None:
    with pytest.raises(ReportError, match="is not a manifest"):
        manifest.parse_components(text)
