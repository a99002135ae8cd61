"""Find the exact version and checksum of a download, with one function for each kind of source."""

import json
import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from packaging.version import Version

from gpu_profile.command import Command, Result
from gpu_profile.components.key import Values
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.lock import http as download
from gpu_profile.lock.http import Fetch
from gpu_profile.lock.version import parse_version

Pins: TypeAlias = dict[str, str]
LATEST = "latest"


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What resolvers use. `distribution` is the base image's: "ubuntu24.04", empty if unknown."""

    fetch: Fetch
    run: Callable[[Command], Result]
    distribution: str = ""
    architecture: str = "amd64"


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


def from_index(package: str, key: str, index: str = "") -> Callable[[Values, Tools], Pins]:
    """Return a resolver of pip packages.

    It finds the version that pip would install from its index or from the setting `index`.
    """

    def resolve(values: Values, tools: Tools) -> Pins:
        version = str(values.get(key, ""))
        exact = f"{package}=={version}" if version not in ("", LATEST) else package
        url = str(values.get(index, ""))
        result = tools.run(
            Command(
                argv=(
                    *(sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-deps"),
                    *("--ignore-installed", "--disable-pip-version-check", "--report", "-"),
                    *(("--index-url", url) if url else ()),
                    exact,
                )
            )
        )
        if result.returncode:
            raise ToolError(f"pip does not find {exact}: {result.said}", f"See {key}")
        installed = json.loads(result.stdout)["install"]
        return {key: str(installed[0]["metadata"]["version"])}

    return resolve


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
