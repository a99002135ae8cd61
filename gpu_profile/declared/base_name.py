"""Facts in the name of a base image: its distribution, its CUDA, whether this project made it."""

import re

from packaging.version import Version

EMBEDDED_REPOSITORY = "gpu-profile-base"
_UBUNTU_CODENAMES = {"focal": "20.04", "jammy": "22.04", "noble": "24.04"}
_DEBIAN_CODENAMES = {"bullseye": "11", "bookworm": "12", "trixie": "13"}
_NVIDIA_FOR_DEBIAN = {"debian11": "ubuntu2004", "debian12": "ubuntu2204", "debian13": "ubuntu2404"}


def is_embedded(image: str) -> bool:
    """Return whether it is an embedded base that was made: `gpu-profile-base:0123456789ab`."""
    return image.startswith(f"{EMBEDDED_REPOSITORY}:")


def distribution_of(image: str) -> str:
    """Return `ubuntu22.04` or `debian13` from an image's name; empty if the name has none."""
    if image == "embedded" or is_embedded(image):
        return "debian13"
    if match := re.search(r"ubuntu[:-]?(\d\d\.\d\d)|debian[:-]?(\d\d)", image):
        return f"ubuntu{match[1]}" if match[1] else f"debian{match[2]}"
    for codename, number in (_UBUNTU_CODENAMES | _DEBIAN_CODENAMES).items():
        if codename in image:
            return f"{'ubuntu' if '.' in number else 'debian'}{number}"
    return ""


def name_nvidia_repository(distribution: str) -> str:
    """Return which of NVIDIA's apt repositories a build on this distribution uses.

    lib/stage/common.sh chooses the same. All have the same versions and signing key, so that an
    unknown distribution gets the newest one.
    """
    name = distribution.replace(".", "")
    return _NVIDIA_FOR_DEBIAN.get(name, name or "ubuntu2404")


def cuda_of(image: str) -> Version | None:
    """Return the CUDA version in the name of one of NVIDIA's CUDA images."""
    match = re.search(r"(?:/cuda:|[-/]cuda|\bcuda:)(\d+\.\d+)", image)
    return Version(match[1]) if match else None
