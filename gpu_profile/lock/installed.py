"""Compare the versions installed in an image with those that its lock pins."""

import json
from collections.abc import Mapping
from pathlib import PurePosixPath

from gpu_profile.components.table import COMPONENTS
from gpu_profile.declared.version import parse_version
from gpu_profile.errors import ReportError
from gpu_profile.lock.file import Lock

PATH = PurePosixPath("/etc/gpu-profile/manifest.json")
_INSTALLED = {
    version.setting: version.name
    for component in COMPONENTS
    for version in component.installed_versions
    if version.setting
}
"""The name in the image's manifest for each setting with a version: NSYS_VERSION is nsys."""


def parse_components(text: str) -> dict[str, str]:
    """Return the version of each component in a manifest. Raises ReportError for other text."""
    try:
        rows = json.loads(text)["components"]
        return {str(name): str(version) for name, version in rows.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"{PATH} is not a manifest: {error!r}", "Build the image anew") from error


def pinned_by_lock(lock: Lock) -> dict[str, str]:
    """Return the pins of all parts: {"NSYS_VERSION": "2026.4.1", …}."""
    return {key: value for part in lock.values() for key, value in part.pinned.items()}


def list_differences(installed: Mapping[str, str], pinned: Mapping[str, str]) -> tuple[str, ...]:
    """Return one line for each pinned version that is not the installed one."""
    lines = []
    for key, name in _INSTALLED.items():
        pinned_version = pinned.get(key, "")
        if pinned_version and not _is_same_version(installed.get(name, ""), pinned_version):
            lines.append(
                f"{key} is pinned to {pinned_version}, installed is {installed.get(name, 'none')}"
            )
    return tuple(lines)


def _is_same_version(installed: str, pinned_version: str) -> bool:
    """Return whether the numbers agree: `v2.30.7-1` pins 2.30.7, and 2.9.0+cu130 is 2.9.0."""
    pin, version = parse_version(pinned_version), parse_version(installed)
    if pin is None or version is None:
        return installed == pinned_version
    return version.release[: len(pin.release)] == pin.release
