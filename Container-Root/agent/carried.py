"""Describe, check and copy the directory that brings nsys to other images. Python 3.8, stdlib only.

    carried.py describe DIR      {"digest": …, "glibc": "2.29", "architecture": "x86_64", …}
    carried.py check DIR         whether it works here; exits 3 with one line on standard error
    carried.py help DIR          the same, then what its `nsys profile --help` prints
    carried.py copy DIR TO       the same directory, for an init container; checks the room first

DIR holds `agent` (this file and its siblings) and `carrier`, made by setup.d/15-carrier.sh: `facts`
says what is in it, `files` has the SHA-256 of each file. Imports no sibling, so that it can be sent
to `python3 -`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROBE_S = 60
_LEAST_ROOM = 16 << 20  # that of room_watch.py; a test holds both equal
_CHUNK = 1 << 20


class UnusableError(Exception):
    """Why the carrier does not work here, as one line."""


def describe(directory: Path) -> dict[str, str]:
    """Return the facts of the carrier, and the SHA-256 of its list of files and of the agent."""
    carrier = directory / "carrier"
    try:
        facts = dict(line.split("=", 1) for line in (carrier / "facts").read_text().splitlines())
        digest = hashlib.sha256((carrier / "files").read_bytes())
    except OSError as error:
        raise UnusableError(f"{carrier} holds no carrier: {error.strerror}") from error
    agent = directory / "agent"
    # Copies elsewhere (a Docker volume) are named by this digest: a new agent needs a new copy.
    for path in sorted(agent.rglob("*.py")):
        digest.update(f"{path.relative_to(agent)}\n".encode() + path.read_bytes())
    return {**facts, "digest": digest.hexdigest()}


def check(directory: Path) -> None:
    """Raise UnusableError unless nsys records here: its files, its programs, a temporary folder."""
    # The loader takes LD_PRELOAD, by which nsys gets into the program, apart at these, and knows no
    # escape: https://man7.org/linux/man-pages/man8/ld.so.8.html
    if re.search(r"[\s:]", str(directory.resolve())):
        raise UnusableError(
            f"no library can be loaded from {directory}: its path has a space or colon"
        )
    for path, digest in _list_files(directory):
        if _compute_digest(path) != digest:
            raise UnusableError(f"{path} is damaged or missing: remove {directory} or its volume")
    _check_programs(directory / "carrier")
    _check_temporary()


def _list_files(directory: Path) -> Iterator[tuple[Path, str]]:
    carrier = directory / "carrier"
    try:
        lines = (carrier / "files").read_text().splitlines()
    except OSError as error:
        raise UnusableError(f"{carrier} holds no carrier: {error.strerror}") from error
    for line in lines:
        # The two spaces of sha256sum: a name may hold one.
        digest, _, name = line.partition("  ")
        yield carrier / name, digest


def _compute_digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            for chunk in iter(lambda: file.read(_CHUNK), b""):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()


def _check_programs(carrier: Path) -> None:
    """Raise UnusableError if nsys, its launcher or its importer cannot be loaded here."""
    home = (carrier / "bin" / "nsys").resolve().parent
    importers = sorted(home.parent.glob("*/QdstrmImporter"))
    for program in (home / "nsys", home / "nsys-launcher", *importers):
        if not program.exists():
            continue
        try:
            ended = subprocess.run(
                [str(program), "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_S,
                check=False,
            )
        except PermissionError as error:
            what = f"{program} may not be executed: its file system is mounted noexec"
            raise UnusableError(what) from error
        except (OSError, subprocess.SubprocessError) as error:
            raise UnusableError(f"{program} does not start: {error}") from error
        _check_loading(program, ended.stderr.decode(errors="replace"))


def _check_loading(program: Path, stderr: str) -> None:
    """Raise UnusableError if the loader said that a library or a version of glibc is missing."""
    library = re.search(r"loading shared libraries: (\S+?):", stderr)
    if library:
        raise UnusableError(f"{program.name} needs {library.group(1)}, which is not here")
    version = re.search(r"version `(GLIBC_[\d.]+)' not found", stderr)
    if version:
        raise UnusableError(f"{program.name} needs {version.group(1)}, which is not here")


def _check_temporary() -> None:
    """Raise UnusableError unless nsys can record in the temporary folder."""
    # As nsys chooses it. tempfile.gettempdir() would pass over a folder that cannot be written.
    folder = os.environ.get("TMPDIR") or "/tmp"
    try:
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        what = f"nsys records in {folder}, which cannot be written ({error.strerror})"
        raise UnusableError(what) from error
    if free < _LEAST_ROOM:
        raise UnusableError(f"nsys records in {folder}, which has {free >> 20} MB free")


def copy(directory: Path, to: Path) -> None:
    """Copy the carrier and the agent. Raises UnusableError where they have no room."""
    size = sum(path.lstat().st_size for path in directory.rglob("*") if not path.is_dir())
    free = shutil.disk_usage(to).free
    if free < size:
        raise UnusableError(f"{size >> 20} MB are carried to {to}, which has {free >> 20} MB free")
    for name in ("agent", "carrier"):
        # bin/nsys and bin/python3 are links: a copy of the file would not find what lies beside it.
        shutil.copytree(directory / name, to / name, symlinks=True)


def main(verb: str, *paths: str) -> int:
    try:
        if verb == "describe":
            print(json.dumps(describe(Path(paths[0]))))
        elif verb == "check":
            check(Path(paths[0]))
        elif verb == "help":
            check(Path(paths[0]))
            nsys = f"{paths[0]}/carrier/bin/nsys"
            os.execv(nsys, [nsys, "profile", "--help"])
        else:
            copy(*map(Path, paths))
    except UnusableError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
