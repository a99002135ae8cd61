"""Find the exact version and checksum of a download, with one function for each kind of source."""

import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from packaging.version import Version

from gpu_profile.command import Command, Result
from gpu_profile.declared.key import Values
from gpu_profile.declared.version import parse_version
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.pins import http as download
from gpu_profile.pins import python_packages
from gpu_profile.pins.http import Fetch
from gpu_profile.pins.python_packages import Target

Pins: TypeAlias = dict[str, str]
LATEST = "latest"
_NVCC = (
    *("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime"),
    "nvidia-cuda-cccl",
)
"""The wheels that make an nvcc: Container-Root/lib/stage/cuda.sh installs the same."""


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What resolvers use. `distribution` is the base image's: "ubuntu24.04", empty if unknown.

    `target` is the image's Python, None if unknown; `index_environment` are uv's variables.
    """

    fetch: Fetch
    run: Callable[[Command], Result]
    distribution: str = ""
    architecture: str = "amd64"
    target: Target | None = None
    index_environment: Mapping[str, str] = field(default_factory=dict)


def as_given(_: Values, __: Tools) -> Pins:
    """Return no pins: the version stands in the setting, and a signed index has the checksum."""
    return {}


def get_architecture() -> str:
    """Return Debian's name of this machine's architecture: amd64, arm64."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def verify_sha256(values: Values, pin: str, tools: Tools, url: str) -> str:
    """Return the file's present SHA-256. Raises SettingsError if the settings name another one."""
    actual = download.fetch_sha256(tools.fetch, url)
    expected = str(values.get(pin, ""))
    if expected and expected != actual:
        raise SettingsError(
            f"{url} has sha256 {actual}, and {pin} is {expected}",
            f"Somebody changed the file, or the version changed: empty {pin} to take what is there",
        )
    return actual


def sort_versions(versions: list[str]) -> list[str]:
    """Return the versions without repetition, the newest first: 2026.10.1 before 2026.9.1."""
    return sorted(set(versions), key=lambda text: parse_version(text) or Version("0"), reverse=True)


def select_version(key: str, version: str, versions: list[str], where: str) -> str:
    """Return the version to pin: the newest for `latest`, otherwise the one that was set.

    `versions` are those that `where` has. Raises SettingsError if it lacks the one that was set.
    """
    if not versions:
        raise ToolError(f"{where} lists none of what {key} is a version of", "See its _URL")
    if version in ("", LATEST):
        return versions[0]
    if version not in versions:
        raise SettingsError(
            f"{key} is {version}, which {where} does not have",
            f"It has {', '.join(versions[:4])}, …",
        )
    return version


def from_index(
    key: str, packages_key: str, *names: str, index: str = "", no_deps: bool = False
) -> Callable[[Values, Tools], Pins]:
    """Return a resolver of Python packages.

    It pins the version of the first name in `key`, and the exact files of all in `packages_key`.
    `index` is the setting with their index; `no_deps` leaves out what the packages need.
    """

    def resolve(values: Values, tools: Tools) -> Pins:
        version = str(values.get(key, ""))
        exact = f"{names[0]}=={version}" if version not in ("", LATEST) else names[0]
        url = str(values.get(index, ""))
        lines = find_packages(tools, exact, *names[1:], index=url, no_deps=no_deps)
        return {
            key: python_packages.version_of(lines[names[0]]),
            packages_key: python_packages.join_packages(lines),
        }

    return resolve


def find_packages(
    tools: Tools, *packages: str, index: str = "", no_deps: bool = False
) -> dict[str, str]:
    """Return the exact files of packages for the image's Python, one line a package."""
    if tools.target is None:
        raise ToolError(
            "The Python of BASE_IMAGE is not known, so its packages cannot be pinned",
            "`docker pull` that image, then `invoke lock` again",
        )
    command = python_packages.make_resolve_command(
        packages, tools.target, tools.index_environment, index=index, no_deps=no_deps
    )
    return python_packages.parse_packages(tools.run(command), packages)


def cuda_wheels(packages_key: str) -> Callable[[Values, Tools], Pins]:
    """Return a resolver of NVIDIA's wheels of nvcc, for bases without a CUDA toolkit."""

    def resolve(values: Values, tools: Tools) -> Pins:
        version = str(values["CUDA_VERSION"])
        lines = find_packages(tools, *(f"{name}=={version}.*" for name in _NVCC), no_deps=True)
        return {packages_key: python_packages.join_packages(lines)}

    return resolve


def has_cuda_wheels(values: Values) -> bool:
    """Return whether nvcc comes as wheels if the base image has none; before CUDA 13 none exist."""
    return int(str(values["CUDA_VERSION"]).partition(".")[0]) >= 13


def source_tree(prefix: str) -> Callable[[Values, Tools], Pins]:
    """Return a resolver of sources: a repository by its commit, a file by its checksum."""
    version, url, sha256, commit = (f"{prefix}_{k}" for k in ("VERSION", "URL", "SHA256", "COMMIT"))

    def resolve(values: Values, tools: Tools) -> Pins:
        where = str(values[url])
        if is_checkout(where):
            return {}
        if is_archive(where):
            return {sha256: verify_sha256(values, sha256, tools, where)}
        tags = _sort_tags(download.git_refs(tools.fetch, where))
        requested = str(values[version])
        exact = requested not in ("", LATEST)
        number = requested.removeprefix("v").partition("-")[0] if exact else LATEST
        chosen = select_version(version, number, list(tags), where)
        tag, tag_commit = tags[chosen]
        pinned_commit = str(values.get(commit, ""))
        if exact and pinned_commit not in ("", tag_commit):
            raise SettingsError(
                f"{where} has {tag_commit} under {tag}, and {commit} is {pinned_commit}",
                f"Somebody moved the tag: empty {commit} to take what is there",
            )
        return {version: requested if exact else tag, commit: tag_commit}

    return resolve


def _sort_tags(refs: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return (tag, commit) with the highest version first: `v2.19.6`, `2.6`, NCCL's `v2.30.7-1`."""
    tags = {}
    for ref, sha in refs.items():
        match = re.fullmatch(r"refs/tags/(v?(\d+(?:\.\d+)+)(?:-\d+)?)", ref)
        if match:
            tags[match[2]] = (match[1], sha)
    return {number: tags[number] for number in sort_versions(list(tags))}


def is_archive(where: str) -> bool:
    return where.endswith((".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar", ".zip"))


def is_checkout(where: str) -> bool:
    return bool(where) and "://" not in where and Path(where).is_dir()
