"""Compare the versions installed in an image with those that its lock or labels pin."""

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from gpu_profile.errors import ReportError
from gpu_profile.image.dockerfile import LABEL_PREFIX
from gpu_profile.lock.file import Lock

PATH = PurePosixPath("/etc/gpu-profile/manifest.json")
_INSTALLED = {
    "NSYS_VERSION": "nsys",
    "TORCH_VERSION": "torch",
    "NVTX_VERSION": "nvtx",
    "EFA_VERSION": "efa_installer",
    "NCCL_VERSION": "nccl",
    "GDRCOPY_VERSION": "gdrcopy",
    "NCCL_TESTS_VERSION": "nccl-tests",
}
"""The name in the image's manifest for each setting with a version."""


def parse_components(text: str) -> dict[str, str]:
    """Return the version of each component in a manifest. Raises ReportError for other text."""
    try:
        rows = json.loads(text)["components"]
        return {str(name): str(version) for name, version in rows.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"{PATH} is no manifest: {error!r}", "Build the image anew") from error


def pinned_by_lock(lock: Lock) -> dict[str, str]:
    return {key: value for part in lock.values() for key, value in part.pinned.items()}


def pinned_by_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the versions that the build was given, from the image's labels."""
    prefix = f"{LABEL_PREFIX}."
    own = {k.removeprefix(prefix): v for k, v in labels.items() if k.startswith(prefix)}
    return {name.upper().replace("-", "_"): value for name, value in own.items()}


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
    return _extract_numbers(installed)[: len(_extract_numbers(pinned_version))] == _extract_numbers(
        pinned_version
    )


def _extract_numbers(version: str) -> list[str]:
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return match[1].split(".") if match else [version]
