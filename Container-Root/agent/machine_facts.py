"""Print what a machine offers for profiling, as JSON. Standard library and Python 3.8 only.

    python3 machine_facts.py [--gpus | --directory DIR]

Prints one JSON line: the facts, or with --gpus the number of GPUs a job may use.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_DRIVER = Path("/proc/driver/nvidia/params")
_SELF = Path("/proc/self/status")
_USERS = Path("/proc/self/uid_map")
# Where no process holds the driver (no persistence mode), nvidia-smi initialises each GPU first.
_SMI_S = 60


def _smi(*arguments: str) -> list[str]:
    """Return the output lines of nvidia-smi, or none if it is missing or finds no driver."""
    try:
        output = subprocess.run(
            ["nvidia-smi", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SMI_S,
            check=True,
        ).stdout.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in output.splitlines() if line.strip()]


def count_gpus(visible: str | None, listed: list[str]) -> int:
    """Return how many GPUs of `nvidia-smi -L` CUDA_VISIBLE_DEVICES leaves visible.

    `visible` None means that the variable is not set: all GPUs are visible.
    """
    installed = sum(line.startswith("GPU ") for line in listed)
    if visible is None:
        return installed
    devices = [word for word in visible.split(",") if word.strip() not in ("", "-1")]
    return min(installed, len(devices))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _value(text: str, key: str) -> str:
    """Return the value of a `Key: value` line, or ""."""
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() == key:
            return value.strip()
    return ""


def _free(directory: Path) -> int:
    """Return the free bytes of the directory's disk, or of the nearest existing parent's."""
    nearest = next(p for p in (directory, *directory.parents) if p.exists())
    return shutil.disk_usage(str(nearest)).free


def _of_the_machine() -> bool:
    """Return whether this process is in the machine's first user namespace, not in one of its own.

    In another user namespace CapEff shows capabilities that hold inside that namespace only.
    """
    # The first user namespace maps all 2^32 - 1 ids to themselves:
    # https://man7.org/linux/man-pages/man7/user_namespaces.7.html
    return _read(_USERS).split() in ([], ["0", "0", "4294967295"])


def collect_facts(directory: Path) -> dict[str, Any]:
    """Return what profiling can use here: GPUs, CPUs, free bytes, limits and programs."""
    query = "--query-gpu=name,driver_version,compute_cap,memory.total"
    status = _read(_SELF)
    return {
        "host": platform.node(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "root": hasattr(os, "geteuid") and os.geteuid() == 0,
        "gpus": [line.split(", ") for line in _smi(query, "--format=csv,noheader")],
        "cpus": os.cpu_count(),
        "directory": str(directory),
        "free_bytes": _free(directory),
        "perf_event_paranoid": _read(_PARANOID).strip(),
        "seccomp": _value(status, "Seccomp"),
        "capabilities": _value(status, "CapEff") if _of_the_machine() else "",
        "admin_only": _value(_read(_DRIVER), "RmProfilingAdminOnly"),
        "programs": [name for name in ("rsync", "tar", "sbatch", "docker") if shutil.which(name)],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="What a machine can do for profiling.")
    parser.add_argument("--gpus", action="store_true")
    parser.add_argument("--directory", type=Path, default=Path())
    options = parser.parse_args()
    if options.gpus:
        answer: object = count_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), _smi("-L"))
    else:
        answer = collect_facts(options.directory.expanduser().absolute())
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
