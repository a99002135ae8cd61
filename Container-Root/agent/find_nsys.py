"""List the copies of nsys on a machine and choose one. Python 3.8 and standard library only.

    python3 find_nsys.py [--nsys PATH] [--json | NSYS_ARGUMENT…]

Prints the path of the one to use; --json lists every copy in the order looked for; arguments
(`profile --help`) are given to it. Exits 3, with one line on standard error, where there is none.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Where installers put nsys: NVIDIA's packages, the CUDA toolkit, Nsight Compute, distributions.
_POSIX = (
    ("nsight-systems", "/opt/nvidia/nsight-systems*/*/target-linux-*/nsys"),
    ("cuda", "/usr/local/cuda*/nsight-systems*/target-linux-*/nsys"),
    ("cuda", "/usr/local/cuda*/bin/nsys"),
    ("nsight-compute", "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys"),
    ("nsight-compute", "/usr/local/cuda*/nsight-compute*/host/target-linux-*/nsys"),
    ("distribution", "/usr/lib/*/nsight-systems/target-linux-*/nsys"),
)
_WINDOWS = (
    ("nsight-systems", r"\NVIDIA Corporation\Nsight Systems *\target-windows-x64\nsys.exe"),
    ("cuda", r"\NVIDIA GPU Computing Toolkit\CUDA\v*\bin\nsys.exe"),
    ("nsight-compute", r"\NVIDIA Corporation\Nsight Compute *\host\target-windows-x64\nsys.exe"),
)
_PROBE_S = 60


class Nsys(NamedTuple):
    """One copy of nsys: its path, where it was found, its version and its importer.

    `importer` is empty when this copy can record but cannot turn a recording into a report.
    `lacks` is the shared library that its importer cannot load, such as libdw.so.1.
    """

    path: str
    origin: str
    version: str = ""
    importer: str = ""
    lacks: str = ""

    @property
    def order(self) -> tuple[int, ...]:
        # Of 2025.3.1.90-253135822126v0 what stands after the dash is the build's number.
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:4])


def list_patterns(windows: bool, environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (origin, glob) pairs in order of preference. PATH and NSYS are handled elsewhere."""
    toolkit = glob.escape(environ.get("CUDA_HOME") or environ.get("CUDA_PATH") or "")
    if windows:
        root = environ.get("ProgramFiles") or r"C:\Program Files"
        places = [(origin, root + tail) for origin, tail in _WINDOWS]
        return [*places, ("cuda", toolkit + r"\bin\nsys.exe")] if toolkit else places
    patterns = [("cuda", toolkit + "/nsight-systems*/target-linux-*/nsys")] if toolkit else []
    return [_POSIX[0], *patterns, *_POSIX[1:]]


def _candidates() -> Iterator[tuple[str, str]]:
    on_path = shutil.which("nsys")
    if on_path:
        yield "PATH", on_path
    for origin, pattern in list_patterns(os.name == "nt", os.environ):
        for path in sorted(glob.glob(pattern), reverse=True):  # noqa: PTH207 - absolute, and Windows'
            yield origin, path


def find_importer(nsys: Path) -> str:
    """Return the path of the QdstrmImporter that this copy of nsys calls, or "".

    It lies in a folder beside the copy's own target-*: host-* in Nsight Systems, linux-desktop-*
    in Nsight Compute. A file that begins with `#!` is a wrapper script for a copy elsewhere: it is
    taken to have an importer, and the script's own path is returned.
    """
    real = nsys.resolve()
    with real.open("rb") as file:
        if file.read(2) == b"#!":
            return str(real)
    paths = sorted(real.parent.parent.glob("*/QdstrmImporter*"))
    return str(paths[0]) if paths else ""


def _lacking(importer: str) -> str:
    """Return the shared library that the importer cannot load, usually libdw.so.1, or ""."""
    if not Path(importer).name.startswith("QdstrmImporter"):
        return ""
    try:
        stderr = _call_program(importer, "--help").stderr.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r"loading shared libraries: (\S+?):", stderr)
    return match.group(1) if match else ""


def _call_program(*argv: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_PROBE_S,
        check=False,
    )


def list_importers(copies: Sequence[Nsys]) -> list[str]:
    """Return the path of every QdstrmImporter beside these copies.

    Debian's packages put nsys and its importer into different folders: both places are searched.
    """
    places = [Path(copy.path).resolve().parents for copy in copies]
    split = [above[3] / "nsight-systems" for above in places if len(above) > 3]
    paths = [path for above in split for path in sorted(above.glob("host-*/QdstrmImporter*"))]
    importers = [c.importer for c in copies if Path(c.importer).name.startswith("QdstrmImporter")]
    return [*importers, *map(str, paths)]


def _inspect_copy(origin: str, path: str) -> Nsys | None:
    """Return the copy with its version, or None if it does not run."""
    try:
        result = _call_program(path, "--version")
        importer = find_importer(Path(path))
    except (OSError, subprocess.SubprocessError):
        return None
    if result.returncode:
        return None
    version = re.search(r"\d{4}\.\d+[\w.-]*", result.stdout.decode(errors="replace"))
    lacks = _lacking(importer)
    return Nsys(path, origin, version.group(0) if version else "", "" if lacks else importer, lacks)


def find_copies(nsys_path: str = "") -> list[Nsys]:
    """Return every copy that runs, each real path once. With `nsys_path`, only that copy."""
    if nsys_path:
        only = _inspect_copy("NSYS", str(Path(shutil.which(nsys_path) or nsys_path).absolute()))
        return [only] if only else []
    seen: dict[str, Nsys] = {}
    for origin, path in _candidates():
        # /usr/local/cuda is a link to /usr/local/cuda-13.0: both match the pattern.
        real = str(Path(path).resolve())
        copy = None if real in seen else _inspect_copy(origin, path)
        if copy:
            seen[real] = copy
    return list(seen.values())


def choose_copy(copies: Sequence[Nsys]) -> Nsys | None:
    """Return the newest copy that has an importer, otherwise the newest. The first wins ties."""
    return max(copies, key=lambda copy: (bool(copy.importer), copy.order), default=None)


def describe_copy(copy: Nsys) -> str:
    text = f"nsys {copy.version} from {copy.origin}: {copy.path}"
    if copy.importer:
        return text
    why = f"its importer lacks {copy.lacks}" if copy.lacks else "it has no importer"
    return text + f" (WARNING: {why}: its recordings stay .qdstrm files)"


def explain_missing(path: str) -> str:
    where = f"{path} does not run" if path else "not in PATH, /opt/nvidia or the CUDA toolkit"
    ways = "Install nsight-systems-cli, name one by NSYS, or record PyTorch --with torch"
    return f"no nsys on this machine: {where}. {ways}"


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Find the nsys of a machine.")
    parser.add_argument("--nsys", default="", metavar="PATH")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="NSYS_ARGUMENT")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    copies = find_copies(options.nsys)
    chosen = choose_copy(copies)
    if options.json:
        print(
            json.dumps({"found": [c._asdict() for c in copies], "chosen": chosen and chosen.path})
        )
        return 0
    if chosen is None:
        print(explain_missing(options.nsys), file=sys.stderr)
        return 3
    print(describe_copy(chosen), file=sys.stderr)
    if options.arguments:
        return subprocess.call([chosen.path, *options.arguments], stdin=subprocess.DEVNULL)
    print(chosen.path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
