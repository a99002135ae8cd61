"""A package index on loopback in two states: what PyPI is today, and what it is next month."""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

NEEDS = {"torch": "helper>=1"}
"""What stand-ins of real packages ask for."""


def _write_wheel(directory: Path, name: str, version: str, build: str, content: str) -> Path:
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    if name in NEEDS:
        metadata += f"Requires-Dist: {NEEDS[name]}\n"
    files = {
        f"{name}/__init__.py": f"__version__ = {version!r}  # {content}\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        f"Tag: py3-none-any\n{f'Build: {build}' if build else ''}\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    wheel = directory / f"{name}-{version}{f'-{build}' if build else ''}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return wheel


def add_package(index: Path, name: str, version: str, build: str = "", content: str = "") -> None:
    """Upload a wheel, and renew the package's page (PEP 503), which names each file's SHA-256."""
    directory = index / name
    directory.mkdir(parents=True, exist_ok=True)
    _write_wheel(directory, name, version, build, content)
    links = "".join(
        f'<a href="{wheel.name}#sha256={hashlib.sha256(wheel.read_bytes()).hexdigest()}">'
        f"{wheel.name}</a>\n"
        for wheel in sorted(directory.glob("*.whl"))
    )
    (directory / "index.html").write_text(f"<!DOCTYPE html><html><body>\n{links}</body></html>\n")


def make_index(index: Path, versions: Mapping[str, str]) -> None:
    for name, version in versions.items():
        add_package(index, name, version)
