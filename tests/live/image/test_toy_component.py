"""A component of one script and one Python file is built, and its version read, in an image."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from tests.image.checks import in_container
from tests.project_copy import copy_project, invoke_copy

IMAGE = "gpu-profile-test-toy"
SCRIPT = """\
#!/usr/bin/env bash
set -euo pipefail
install -d /opt/toy
echo "${TOY_VERSION}" >/opt/toy/version
"""

pytestmark = [pytest.mark.docker, pytest.mark.image]


@pytest.fixture
def toy_image(tmp_path: Path, image: str) -> Iterator[str]:
    """The image under test with the toy on top of it; its base has nsys already."""
    project = copy_project(tmp_path)
    needless = re.compile(r"    requires=.*\n")
    toy = (project / "tests/toys/component.py").read_text()
    (project / "gpu_profile/components/toy.py").write_text(needless.sub("", toy))
    (project / "Container-Root/setup.d/65-toy.sh").write_text(SCRIPT)
    settings = (
        *(f"IMAGE={IMAGE}", f"BASE_IMAGE={image}", "NSYS_SOURCE=base", "INSTALL_TORCH=none"),
        *("INSTALL_MPI=false", "INSTALL_TOY=true"),
    )
    flags = (word for setting in settings for word in ("--set", setting))
    built = invoke_copy(project, "build", "--unlocked", *flags)
    assert built.returncode == 0, built.last_line
    yield f"{IMAGE}:latest"
    process.run(make_command("docker", "image", "rm", f"{IMAGE}:latest"))


def test_the_manifest_has_the_version_of_the_toy(toy_image: str) -> None:
    manifest = in_container(toy_image, "cat", "/etc/gpu-profile/manifest.json").stdout
    assert '"toy": "1.0"' in manifest
    assert in_container(toy_image, "sh", "-c", "echo $TOY_HOME").stdout == "/opt/toy\n"
