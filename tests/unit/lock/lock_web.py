"""What the lock's tests lock: settings, and a web that serves what they name."""

import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from gpu_profile.command import Command, Result
from gpu_profile.errors import ToolError
from gpu_profile.lock import file as lock
from gpu_profile.lock.file import Lock
from gpu_profile.lock.resolvers import Tools
from gpu_profile.settings import settings
from gpu_profile.settings.settings import Settings

BASE = "nvcr.io/nvidia/cuda:13.0.2-devel-ubuntu22.04"
DIGEST = "sha256:" + "d" * 64
REPOSITORY = "https://mirror.test/devtools"
PACKAGES = "".join(
    f"Package: nsight-systems-cli-{version}\nVersion: {version}.1-2\n\n"
    for version in ("2025.6.1", "2026.10.1", "2026.4.1", "2026.9.1")
)


def installer(version: str) -> bytes:
    """An archive of the EFA installer's own layout: a stand-in."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        script = f'#!/bin/bash\nEFA_INSTALLER_VERSION="{version}"\n'.encode()
        member = tarfile.TarInfo("aws-efa-installer/efa_installer.sh")
        member.size = len(script)
        archive.addfile(member, io.BytesIO(script))
    return body.getvalue()


def refs(**tags: str) -> bytes:
    return "".join(f"{sha * 40}\trefs/tags/{tag}\n" for tag, sha in tags.items()).encode()


WEB = {
    "https://git.test/tests/info/refs?service=git-upload-pack": refs(
        **{"v2.9.0": "f", "v2.19.6": "a", "v2.20.0": "b", "v2.20.0-rc": "f"}
    ),
    "https://git.test/nccl/info/refs?service=git-upload-pack": refs(
        **{"v2.30.7-1": "c", "v2.30.6-1": "d"}
    ),
    "https://git.test/tests.tar.gz": b"sources",
    f"{REPOSITORY}/ubuntu2204/amd64/Packages": PACKAGES.encode(),
    f"{REPOSITORY}/ubuntu2204/amd64/nvidia.pub": b"a key",
    "https://efa.test/aws-efa-installer-latest.tar.gz": installer("1.51.0"),
    "https://efa.test/aws-efa-installer-1.51.0.tar.gz": b"the archive",
    "https://efa.test/aws-efa-installer-1.50.0.tar.gz": b"an older archive",
}


@contextmanager
def web(url: str) -> Iterator[IO[bytes]]:
    if url not in WEB:
        raise ToolError(f"{url} cannot be read")
    yield io.BytesIO(WEB[url])


def pip(command: Command) -> Result:
    """pip's report, with the newest version where none was asked for."""
    name, _, version = command.argv[-1].partition("==")
    newest = {"torch": "2.9.1", "nvtx": "0.2.16"}[name]
    report = {"install": [{"metadata": {"name": name, "version": version or newest}}]}
    return Result(returncode=0, stdout=json.dumps(report))


TOOLS = Tools(fetch=web, run=pip, distribution="ubuntu2204")


def load(**values: str) -> Settings:
    chosen = {
        "BASE_IMAGE": BASE,
        "INSTALL_TORCH": "cuda",
        "TORCH_URL": "",
        "NSYS_SOURCE": "nvidia",
        "NSYS_URL": REPOSITORY,
        "EFA_URL": "https://efa.test",
        "EFA_SHA256": "",
    } | values
    words = [f"{key}={value}" for key, value in chosen.items()]
    return settings.load_settings(Path("/nonexistent/.env"), {}, words)


def resolve(asked: Settings, decided: Settings | None = None) -> Lock:
    return lock.resolve_lock(asked, decided or asked, TOOLS, lambda _: DIGEST)
