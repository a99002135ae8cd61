"""The `nsys export` command of one report."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpu_profile.command import Command, Result

_BLOBS = "--include-blobs=true"


def export_command(nsys: Sequence[str], report: Path, output: Path) -> Command:
    """Return the command that exports a report to the SQLite file `output`.

    It includes NVTX payloads, in which NCCL records communicators, ranks and message sizes. Rows
    come in any order since nsys 2025.6.
    """
    target = f"--output={output}"
    words = ("--type=sqlite", _BLOBS, "--force-overwrite=true", target, str(report))
    return Command(argv=(*nsys, "export", *words))


def without_blobs(export: Command, result: Result) -> Command | None:
    """Return the export without payloads if nsys refused that option (2023.4), otherwise None.

    Reading the help text first would start nsys, or a container, twice for every report.
    """
    refused = result.returncode and "include-blobs" in result.stderr + result.stdout
    if not refused or _BLOBS not in export.argv:
        return None
    return replace(export, argv=tuple(word for word in export.argv if word != _BLOBS))
