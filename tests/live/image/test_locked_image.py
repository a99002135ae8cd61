"""The image holds what it was locked to: its manifest, read from what is installed, against the
versions in its labels and in the lock beside the settings."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from gpu_profile.image.dockerfile import LABEL_PREFIX
from gpu_profile.lock import file, installed
from tests.image.checks import in_container


def pinned_by_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the versions that the build was given, from the image's labels."""
    prefix = f"{LABEL_PREFIX}."
    own = {k.removeprefix(prefix): v for k, v in labels.items() if k.startswith(prefix)}
    return {name.upper().replace("-", "_"): value for name, value in own.items()}


def _installed(image: str) -> dict[str, str]:
    return installed.parse_components(in_container(image, "cat", str(installed.PATH)).stdout)


def test_versions_are_those_of_the_labels(image: str) -> None:
    told = process.run(
        make_command("docker", "image", "inspect", "--format={{json .Config.Labels}}", image)
    )
    pinned = pinned_by_labels(json.loads(told.stdout))
    if pinned.get("NSYS_SOURCE") != "nvidia":
        pinned.pop("NSYS_VERSION", None)  # the version is NVIDIA's
    assert installed.list_differences(_installed(image), pinned) == ()


def test_versions_are_those_of_the_lock(image: str) -> None:
    pinned = installed.pinned_by_lock(file.read_lock(Path(file.NAME)))
    if not pinned:
        pytest.skip(f"there is no {file.NAME} here")
    assert installed.list_differences(_installed(image), pinned) == ()
