"""What the lock's tests lock: settings, and a web that serves what they name."""

import dataclasses
import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from gpu_profile.command import Command, Result
from gpu_profile.errors import ToolError
from gpu_profile.lock import file
from gpu_profile.lock.file import Lock
from gpu_profile.pins.python_packages import Target
from gpu_profile.pins.resolvers import Tools
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


NEWEST = {"torch": "2.9.1", "nvtx": "0.2.16", "numpy": "2.5.5", "sympy": "1.14.0"}
NEEDS = {"torch": ("sympy",)}


def wheel_hash(name: str, version: str) -> str:
    return sha256(f"{name} {version}".encode()).hexdigest()


def uv(command: Command) -> Result:
    """uv's pylock.toml: the newest versions, or those asked for, with what torch needs."""
    assert command.argv[1:5] == ("-m", "uv", "pip", "compile")
    names = []
    for line in command.stdin.split():
        name, _, version = line.partition("==")
        names.append((name, version.replace("*", "96") or NEWEST[name]))
        if "--no-deps" not in command.argv:
            names += [(needed, NEWEST[needed]) for needed in NEEDS.get(name, ())]
    packages = "".join(
        f'[[packages]]\nname = "{name}"\nversion = "{version}"\n'
        f'wheels = [{{ hashes = {{ sha256 = "{wheel_hash(name, version)}" }} }}]\n'
        for name, version in sorted(names)
    )
    return Result(returncode=0, stdout=f'lock-version = "1.0"\n{packages}')


TOOLS = Tools(fetch=web, run=uv, distribution="ubuntu2204", target=Target(python="3.10"))


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


def resolve(settings: Settings, decided: Settings | None = None, **tools: Any) -> Lock:
    changed = dataclasses.replace(TOOLS, **tools)
    return file.resolve_lock(settings, decided or settings, changed, lambda _: DIGEST)
