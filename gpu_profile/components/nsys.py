"""Nsight Systems: settings, script arguments, downloads and rules."""

import re

from packaging.version import Version

from gpu_profile.components.component import Component, InstalledVersion, select_values
from gpu_profile.declared.auto_setting import AutoSetting
from gpu_profile.declared.base_name import name_nvidia_repository
from gpu_profile.declared.key import Values, make_choice_key, make_text_key
from gpu_profile.declared.rule import Facts, Rule
from gpu_profile.declared.version import parse_version
from gpu_profile.pins.http import fetch_text
from gpu_profile.pins.pin_source import PinSource, match_value
from gpu_profile.pins.resolvers import Pins, Tools, select_version, sort_versions, verify_sha256

_NOTES = "docs.nvidia.com/nsight-systems/ReleaseNotes"


def _list_arguments(values: Values) -> dict[str, str]:
    names = ["NSYS_SOURCE"]
    if values["NSYS_SOURCE"] == "nvidia":
        names += ["NSYS_VERSION", "NSYS_URL", "NSYS_SHA256"]
    return select_values(values, *names)


def _resolve(values: Values, tools: Tools) -> Pins:
    """Return nsys' version from NVIDIA's apt index, and the SHA-256 of the repository's key."""
    repository = name_nvidia_repository(tools.distribution)
    url = f"{values['NSYS_URL']}/{repository}/{tools.architecture}"
    packages = fetch_text(tools.fetch, f"{url}/Packages")
    versions = sort_versions(
        re.findall(r"^Package: nsight-systems-cli-(\d[\d.]*)$", packages, re.MULTILINE)
    )
    return {
        "NSYS_VERSION": select_version("NSYS_VERSION", str(values["NSYS_VERSION"]), versions, url),
        "NSYS_SHA256": verify_sha256(values, "NSYS_SHA256", tools, f"{url}/nvidia.pub"),
    }


def _drops_gpu(facts: Facts) -> str:
    old = [arch for arch in facts.archs if arch < 75]
    version = facts.versions.get("nsys")
    is_new = version is not None and version >= Version("2025.4")
    return f"nsys {version} does not trace sm_{old[0]}" if is_new and old else ""


def _before_gpu(facts: Facts) -> str:
    blackwell = [arch for arch in facts.archs if arch >= 100]
    version = facts.versions.get("nsys")
    is_old = version is not None and version < Version("2025.1")
    return f"nsys {version} is older than sm_{blackwell[0]}" if is_old and blackwell else ""


COMPONENT = Component(
    number=10,
    name="nsys",
    doc="NVIDIA Nsight Systems, the profiler",
    is_enabled=lambda _: True,
    args=_list_arguments,
    keys=(
        make_choice_key(
            "NSYS_SOURCE",
            ("auto", "nvidia", "debian", "base"),
            "nsys of NVIDIA's apt repository, of Debian's non-free section, or the base image's "
            "own; auto is nvidia where it answers, otherwise debian",
        ),
        make_text_key("NSYS_VERSION", "2026.4.1", "nsys version in NVIDIA's apt repository"),
        make_text_key(
            "NSYS_URL",
            "https://developer.download.nvidia.com/devtools/repos",
            "NVIDIA's apt repository of developer tools, or a mirror of it",
        ),
        make_text_key("NSYS_SHA256", "", "sha256 of that repository's signing key, nvidia.pub"),
    ),
    sources=(
        PinSource(
            pins=("NSYS_VERSION", "NSYS_SHA256"),
            is_needed=match_value("NSYS_SOURCE", "nvidia"),
            resolve=_resolve,
        ),
    ),
    automatic=(
        AutoSetting(
            key="NSYS_SOURCE",
            why="NVIDIA's repository where it answers, otherwise the distribution's",
            url=lambda values: str(values["NSYS_URL"]),
            choose=lambda answers, values: (
                "nvidia" if str(values["NSYS_URL"]) in answers.urls else "debian"
            ),
        ),
    ),
    installed_versions=(
        InstalledVersion(
            name="nsys", command="nsys --version", setting="NSYS_VERSION", in_bases=True
        ),
    ),
    version_of=lambda values, _: (
        parse_version(str(values["NSYS_VERSION"])) if values["NSYS_SOURCE"] == "nvidia" else None
    ),
    rules=(
        Rule(
            name="nsys and old GPUs",
            find_fault=_drops_gpu,
            reason="Pascal and Volta were dropped in 2025.4",
            source=_NOTES,
            hint="Set NSYS_VERSION to 2025.3.2 or older, or leave it out of CUDA_ARCHS",
        ),
        Rule(
            name="nsys and new GPUs",
            find_fault=_before_gpu,
            reason="hardware tracing of Blackwell came with 2025.1 and 2025.2",
            source=_NOTES,
            hint="Set NSYS_VERSION to 2025.2 or newer",
        ),
    ),
)
