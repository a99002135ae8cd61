"""The distribution's packages: recorded from the image that a lock built, and compared later."""

import json

import pytest

from gpu_profile.errors import GateError, ReportError
from gpu_profile.lock import distribution_packages, file
from tests.unit.lock.lock_web import load, resolve

BEFORE = {"libssl3t64:amd64": "3.5.1-1", "tini": "0.19.0-3", "bsdutils": "1:2.41-5"}


def manifest(**changes: str) -> str:
    names = {name.replace("_", ":"): version for name, version in changes.items()}
    return json.dumps({"packages": {k: v for k, v in {**BEFORE, **names}.items() if v}})


def recorded() -> file.Lock:
    """As a reader of the file gets it."""
    written = {**resolve(load()), **distribution_packages.record_packages(manifest())}
    return file.parse_lock(file.render_lock(written))


def test_the_lock_has_a_line_for_each_package() -> None:
    text = file.render_lock(recorded())
    assert "[distribution]\npinned DISTRIBUTION_PACKAGES =\n    bsdutils=1:2.41-5\n" in text
    assert "    libssl3t64:amd64=3.5.1-1\n" in text


def test_the_record_is_no_setting_of_the_build() -> None:
    assert file.apply_lock(load(), recorded()) == file.apply_lock(load(), resolve(load()))
    assert file.list_drift(load(), recorded()) == ()


def test_the_same_packages_pass() -> None:
    distribution_packages.check_packages("x:latest", manifest(), recorded())
    distribution_packages.check_packages("x:latest", manifest(tini="0.19.1"), resolve(load()))


def test_builds_prefer_the_recorded_versions() -> None:
    preferences = distribution_packages.render_preferences(recorded())
    assert preferences.startswith(
        "Package: bsdutils\nPin: version 1:2.41-5\nPin-Priority: 999\n\n"
        "Package: libssl3t64:amd64\nPin: version 3.5.1-1\n"
    )
    assert distribution_packages.render_preferences(resolve(load())) == ""


def test_another_state_of_the_mirror_is_named() -> None:
    changed = manifest(libssl3t64_amd64="3.5.2-1", tini="", curl="8.14")
    with pytest.raises(GateError) as caught:
        distribution_packages.check_packages("x:latest", changed, recorded())
    assert (
        "its packages are not those of gpu-profile.lock: curl is 8.14, was absent; "
        "libssl3t64:amd64 is 3.5.2-1, was 3.5.1-1; tini is absent, was 0.19.0-3."
    ) in str(caught.value)
    assert caught.value.exit_code == 8


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_no_manifest(text: str) -> None:
    with pytest.raises(ReportError, match="is not a manifest"):
        distribution_packages.record_packages(text)
