"""/etc/gpu-profile/manifest.json: what is in the image, read from what is installed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path


def _output(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def _version(command: str) -> str:
    """The first version number that a line of sh prints, as in `nsys --version`; "" for none.

    A single word without a number is the version too: a branch such as `master`.
    """
    text = _output("sh", "-c", command)
    match = re.search(r"\d+(?:\.\d+)+\S*", text)
    if match:
        return match[0].rstrip(",)")
    words = text.split()
    return words[0] if len(words) == 1 else ""


def _os_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {k: v.strip('"') for k, _, v in (line.partition("=") for line in lines)}


def _packages() -> dict[str, str]:
    listed = _output("dpkg-query", "-W", "-f", "${Status}|${binary:Package}|${Version}\n")
    rows = (line.split("|") for line in listed.splitlines())
    return {name: version for status, name, version in rows if status.endswith(" installed")}


def manifest(commands: dict[str, str]) -> dict[str, object]:
    """What is in the image. `commands` print the versions of components, by their name."""
    system = _os_release()
    versions = {name: _version(command) for name, command in commands.items()}
    return {
        "system": f"{system.get('ID', '')} {system.get('VERSION_ID', '')}".strip(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "components": {name: version for name, version in versions.items() if version},
        "packages": _packages(),
        "python_packages": {str(d.metadata["Name"]): d.version for d in metadata.distributions()},
    }


def write(path: Path, commands: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(manifest(commands), indent=1, sort_keys=True) + "\n")
