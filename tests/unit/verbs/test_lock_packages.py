"""`lock` records the packages of the image that the lock built, and `build` compares them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Result
from gpu_profile.image import auto, build
from gpu_profile.settings.places import ROOT
from gpu_profile.settings.settings import load_settings
from tests.invoked import invoke

DIGEST = f"sha256:{'0' * 64}"
ENV = f"""\
BASE_IMAGE=debian:13@{DIGEST}
INSTALL_TORCH=none
INSTALL_MPI=false
NSYS_SOURCE=debian
"""
DOCKER = """\
case "$*" in
  "version "*) echo 26.1.5 ;;
  "image inspect "*Labels*) cat "$HERE/labels" ;;
  *" cat /etc/gpu-profile/manifest.json") cat "$HERE/manifest" ;;
  *) exit 1 ;;
esac
"""


def make_engine(directory: Path, fake_tool: Callable[[str, str], object], **packages: str) -> None:
    """An engine whose image is of these settings and has these packages."""
    (directory / ".env").write_text(ENV)
    settings = process.drive(auto.decide_settings(load_settings(directory / ".env", {}))).settings
    (directory / "labels").write_text(f"{build.inputs_hash(settings, ROOT)} {DIGEST}\n")
    (directory / "manifest").write_text(json.dumps({"packages": packages}))
    fake_tool("docker", DOCKER)


def run(directory: Path, *words: str) -> Result:
    return invoke(*words, directory=directory, HERE=str(directory))


def test_the_next_build_must_have_the_same_packages(
    tmp_path: Path, fake_tool: Callable[[str, str], object]
) -> None:
    make_engine(tmp_path, fake_tool, bash="5.2", tini="0.19")
    written = run(tmp_path, "lock")
    assert written.returncode == 0, written.stderr
    text = (tmp_path / "gpu-profile.lock").read_text()
    assert "pinned DISTRIBUTION_PACKAGES =\n    bash=5.2\n    tini=0.19\n" in text
    assert run(tmp_path, "build").returncode == 0
    (tmp_path / "manifest").write_text(json.dumps({"packages": {"bash": "5.3", "tini": "0.19"}}))
    changed = run(tmp_path, "build")
    assert changed.returncode == 8
    assert "bash is 5.3, was 5.2" in changed.stderr


@pytest.mark.further
def test_without_the_image_the_record_stays_and_a_first_lock_says_what_is_missing(
    tmp_path: Path, fake_tool: Callable[[str, str], object]
) -> None:
    make_engine(tmp_path, fake_tool, bash="5.2")
    assert run(tmp_path, "lock").returncode == 0
    text = (tmp_path / "gpu-profile.lock").read_text()
    fake_tool("docker", "exit 1")
    assert "is as it was" in run(tmp_path, "lock").stdout
    assert (tmp_path / "gpu-profile.lock").read_text() == text
    (tmp_path / "gpu-profile.lock").unlink()
    first = run(tmp_path, "lock")
    assert "no packages of the distribution yet: `invoke build`, then" in first.stderr
    assert "[distribution]" not in (tmp_path / "gpu-profile.lock").read_text()
