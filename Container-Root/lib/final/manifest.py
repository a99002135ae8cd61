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


def _version(*argv: str) -> str:
    found = re.search(r"\d+(?:\.\d+)+\S*", _output(*argv))
    return found[0].rstrip(",)") if found else ""


def _os_release() -> dict[str, str]:
    lines = Path("/etc/os-release").read_text().splitlines()
    return {k: v.strip('"') for k, _, v in (line.partition("=") for line in lines)}


def _packages() -> dict[str, str]:
    listed = _output("dpkg-query", "-W", "-f", "${Status}|${binary:Package}|${Version}\n")
    rows = (line.split("|") for line in listed.splitlines())
    return {name: version for status, name, version in rows if status.endswith(" installed")}


def _python_packages() -> dict[str, str]:
    return {str(d.metadata["Name"]): d.version for d in metadata.distributions()}


def _efa_installer() -> str:
    file = Path("/opt/amazon/efa_installed_packages")
    found = re.search(r"EFA installer version: (\S+)", file.read_text()) if file.exists() else None
    return found[1] if found else ""


def _nccl() -> str:
    headers = (Path(home, "include/nccl.h") for home in ("/opt/nccl", "/usr", "/usr/local/cuda"))
    header = next((path for path in headers if path.exists()), None)
    parts = re.findall(
        r"#define NCCL_(?:MAJOR|MINOR|PATCH) (\d+)", header.read_text() if header else ""
    )
    return ".".join(parts[:3])


def _line(file: str) -> str:
    path = Path(file)
    return path.read_text().strip() if path.exists() else ""


def _gdrcopy() -> str:
    found = sorted(Path("/opt/gdrcopy/lib").glob("libgdrapi.so.*.*"))
    return found[0].name.split(".so.")[1] if found else ""


def manifest() -> dict[str, object]:
    system, python = _os_release(), _python_packages()
    found = {
        "nsys": _version("nsys", "--version"),
        "mpi": _version("mpirun", "--version"),
        "torch": python.get("torch", ""),
        "nvtx": python.get("nvtx", ""),
        "libfabric": _version("fi_info", "--version"),
        "efa_installer": _efa_installer(),
        "nccl": _nccl(),
        "gdrcopy": _gdrcopy(),
        "nccl-tests": _line("/opt/nccl-tests/version"),
    }
    return {
        "system": f"{system.get('ID', '')} {system.get('VERSION_ID', '')}".strip(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "components": {name: version for name, version in found.items() if version},
        "packages": _packages(),
        "python_packages": python,
    }


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(manifest(), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
