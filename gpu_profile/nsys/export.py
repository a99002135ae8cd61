"""The `nsys export` command of one report."""

from collections.abc import Sequence
from pathlib import Path

from gpu_profile.command import Command
from gpu_profile.nsys.help import TYPICAL_HELP as TYPICAL_HELP


def export_command(nsys: Sequence[str], report: Path) -> Command:
    """Export one report to SQLite beside it. Rows come in any order (nsys 2025.6 and later)."""
    output = f"--output={report.with_suffix('.sqlite')}"
    return Command(
        argv=(*nsys, "export", "--type=sqlite", "--force-overwrite=true", output, str(report))
    )
