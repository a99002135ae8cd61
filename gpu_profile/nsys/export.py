"""The `nsys export` command of one report."""

from collections.abc import Sequence
from pathlib import Path

from gpu_profile.command import Command
from gpu_profile.nsys.help import TYPICAL_HELP as TYPICAL_HELP


def export_command(nsys: Sequence[str], report: Path, output: Path) -> Command:
    """Export one report to the SQLite file `output`. Rows come in any order (nsys 2025.6 and
    later)."""
    words = ("--type=sqlite", "--force-overwrite=true", f"--output={output}", str(report))
    return Command(argv=(*nsys, "export", *words))
