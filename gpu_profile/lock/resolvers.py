"""Find the exact version and checksum of a download, with one function for each kind of source."""

import json
import platform
import re
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

from gpu_profile.command import Command, Result
from gpu_profile.components.key import Values
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.image.compatibility_facts import distribution_of
from gpu_profile.lock import http as download
from gpu_profile.lock.http import Fetch

Pins: TypeAlias = dict[str, str]
LATEST = "latest"


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What resolvers use. `distribution` is NVIDIA's name of the base's, such as ubuntu2404."""

    fetch: Fetch
    run: Callable[[Command], Result]
    distribution: str = "ubuntu2404"
    architecture: str = "amd64"


_NVIDIA_FOR_DEBIAN = {"debian11": "ubuntu2004", "debian12": "ubuntu2204", "debian13": "ubuntu2404"}


def nvidia_distribution(base_image: str) -> str:
    """Return which of NVIDIA's repositories setup.d/10-nsys.sh uses on this base image.

    All have the same versions and signing key, so an unknown name gets the newest one.
    """
    distribution = distribution_of(base_image).replace(".", "")
    return _NVIDIA_FOR_DEBIAN.get(distribution, distribution or "ubuntu2404")


def as_given(_: Values, __: Tools) -> Pins:
    """Return no pins: the version stands in the setting, and a signed index has the checksum."""
    return {}


def get_architecture() -> str:
    """Return Debian's name of this machine's architecture: amd64, arm64."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def resolve_nsys(values: Values, tools: Tools) -> Pins:
    """Return nsys' version from NVIDIA's apt index, and the SHA-256 of the repository's key."""
    url = f"{values['NSYS_URL']}/{tools.distribution}/{tools.architecture}"
    versions = _newest_first(
        re.findall(
            r"^Package: nsight-systems-cli-(\d[\d.]*)$",
            download.fetch_text(tools.fetch, f"{url}/Packages"),
            re.MULTILINE,
        )
    )
    return {
        "NSYS_VERSION": _select_version("NSYS_VERSION", str(values["NSYS_VERSION"]), versions, url),
        "NSYS_SHA256": _check_sum(values, "NSYS_SHA256", tools, f"{url}/nvidia.pub"),
    }


def resolve_efa(values: Values, tools: Tools) -> Pins:
    """Return the EFA installer's version and the SHA-256 of its archive."""
    version = str(values["EFA_VERSION"])
    url = f"{values['EFA_URL']}/aws-efa-installer-{version}.tar.gz"
    if version == LATEST:
        version = _efa_latest(tools.fetch, url)
        url = f"{values['EFA_URL']}/aws-efa-installer-{version}.tar.gz"
        # a checksum in the settings is that of another version
        values = {**values, "EFA_SHA256": ""}
    return {"EFA_VERSION": version, "EFA_SHA256": _check_sum(values, "EFA_SHA256", tools, url)}


def _efa_latest(fetch: Fetch, url: str) -> str:
    """Return the version in the installer's script; its archive's name says `latest`."""
    with fetch(url) as body:
        version = _stated_version(body)
    if not version:
        raise ToolError(f"{url} does not state its version", "Set EFA_VERSION to a number")
    return version


def _stated_version(body: IO[bytes]) -> str:
    pattern = re.compile(rb"EFA_INSTALLER_VERSION=\W?(\d+\.\d+\.\d+)")
    with tarfile.open(fileobj=body, mode="r|gz") as archive:
        for member in archive:
            script = archive.extractfile(member) if member.name.endswith(".sh") else None
            if script and (match := pattern.search(script.read())):
                return match[1].decode()
    return ""


def _check_sum(values: Values, pin: str, tools: Tools, url: str) -> str:
    """Return the file's present SHA-256. Raises SettingsError if the settings name another one."""
    actual = download.fetch_sha256(tools.fetch, url)
    expected = str(values.get(pin, ""))
    if expected and expected != actual:
        raise SettingsError(
            f"{url} has sha256 {actual}, and {pin} is {expected}",
            f"Somebody changed the file, or the version changed: empty {pin} to take what is there",
        )
    return actual


def _newest_first(versions: list[str]) -> list[str]:
    return sorted(set(versions), key=_extract_numbers, reverse=True)


def _extract_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _select_version(key: str, version: str, versions: list[str], where: str) -> str:
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
            return {sha256: _check_sum(values, sha256, tools, where)}
        tags = _sort_tags(download.git_refs(tools.fetch, where))
        requested = str(values[version])
        exact = requested not in ("", LATEST)
        number = requested.removeprefix("v").partition("-")[0] if exact else LATEST
        chosen = _select_version(version, number, list(tags), where)
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
    return {number: tags[number] for number in _newest_first(list(tags))}


def is_archive(where: str) -> bool:
    return where.endswith((".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar", ".zip"))


def is_checkout(where: str) -> bool:
    return bool(where) and "://" not in where and Path(where).is_dir()
