"""Nsight Compute: settings, script arguments and downloads."""

import re

from gpu_profile.components.component import Component, InstalledVersion, select_values
from gpu_profile.declared.base_name import name_nvidia_repository
from gpu_profile.declared.key import Values, make_switch_key, make_text_key
from gpu_profile.pins.http import fetch_text
from gpu_profile.pins.pin_source import PinSource
from gpu_profile.pins.resolvers import Pins, Tools, select_version, sort_versions, verify_sha256

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "sbsa"}
_KEY = "3bf863cc.pub"


def _list_arguments(values: Values) -> dict[str, str]:
    """Return the script's variables. ncu comes from where nsys does."""
    source = {"NCU_SOURCE": str(values["NSYS_SOURCE"])}
    if values["NSYS_SOURCE"] == "nvidia":
        source |= select_values(values, "NCU_VERSION", "NCU_URL", "NCU_SHA256")
    return source


def _resolve(values: Values, tools: Tools) -> Pins:
    """Return ncu's version from CUDA's apt index, and the SHA-256 of the repository's key."""
    repository = name_nvidia_repository(tools.distribution)
    architecture = _ARCHITECTURES.get(tools.architecture, tools.architecture)
    url = f"{values['NCU_URL']}/{repository}/{architecture}"
    packages = fetch_text(tools.fetch, f"{url}/Packages")
    versions = sort_versions(
        re.findall(r"^Package: nsight-compute-(\d[\d.]*)$", packages, re.MULTILINE)
    )
    return {
        "NCU_VERSION": select_version("NCU_VERSION", str(values["NCU_VERSION"]), versions, url),
        "NCU_SHA256": verify_sha256(values, "NCU_SHA256", tools, f"{url}/{_KEY}"),
    }


COMPONENT = Component(
    number=12,
    name="ncu",
    doc="NVIDIA Nsight Compute, which `drill` runs",
    is_enabled=lambda values: bool(values["INSTALL_NCU"]),
    toggle="INSTALL_NCU",
    args=_list_arguments,
    keys=(
        make_switch_key(
            "INSTALL_NCU",
            "Nsight Compute's ncu, for drill; from where NSYS_SOURCE has nsys",
            default=False,
        ),
        make_text_key("NCU_VERSION", "2025.3.1", "ncu version in NVIDIA's apt repository of CUDA"),
        make_text_key(
            "NCU_URL",
            "https://developer.download.nvidia.com/compute/cuda/repos",
            "NVIDIA's apt repository of CUDA, or a mirror of it",
        ),
        make_text_key("NCU_SHA256", "", f"sha256 of that repository's signing key, {_KEY}"),
    ),
    sources=(
        PinSource(
            pins=("NCU_VERSION", "NCU_SHA256"),
            is_needed=lambda values: (
                bool(values["INSTALL_NCU"]) and values["NSYS_SOURCE"] == "nvidia"
            ),
            resolve=_resolve,
        ),
    ),
    installed_versions=(
        InstalledVersion(name="ncu", command="ncu --version", setting="NCU_VERSION"),
    ),
)
