"""scrub: copy a report without environment, secrets, paths and hosts."""

from pathlib import Path

from gpu_profile.analysis.scrub import scrub as scrubbing
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.reading import ScrubOptions
from gpu_profile.cli.paths import check_folder
from gpu_profile.cli.terminal import print_tables
from gpu_profile.progress import Progress
from gpu_profile.verbs.reading.open_run import (
    ReportChoice,
    find_report_files,
    readable_file,
)


def scrub(options: ScrubOptions) -> None:
    """Write a cleaned copy of each chosen report, and print what was left out of it."""
    settings = load_settings(options)
    choice = ReportChoice.from_options(options)
    reports = [readable_file(path, settings) for path in find_report_files(choice, settings)]
    removal = scrubbing.make_scrub_options(
        keep=options.keep, also=options.also, keep_blobs=options.keep_blobs
    )
    output = Path(options.output or "scrubbed")
    check_folder(output.parent if scrubbing.is_file(output) else output)
    table = scrubbing.scrub_reports(
        reports, output, removal, Progress().say, most_bytes=settings.unpack_limit_bytes
    )
    print_tables([table], "text")
