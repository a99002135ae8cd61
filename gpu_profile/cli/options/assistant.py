"""The flags of mcp."""

from dataclasses import dataclass

from gpu_profile.cli.options.shared import SetOptions
from gpu_profile.cli.verb import make_flag


@dataclass(frozen=True, kw_only=True)
class McpOptions(SetOptions):
    report: tuple[str, ...] = make_flag(
        (), "a report's file or directory, read beside the runs in REPORT_DIR; may be given again"
    )
