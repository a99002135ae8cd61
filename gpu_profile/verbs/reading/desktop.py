"""open: show reports in the window of a local Nsight Systems; and the browser of html --open."""

import sys
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.reading import OpenOptions
from gpu_profile.command import Command
from gpu_profile.errors import ReportError, SettingsError, ToolError
from gpu_profile.runs.reports.report_files import list_copies
from gpu_profile.verbs.reading.open_run import ReportChoice, find_report_files

WINDOW = "nsys-ui"
RECORDING = ".nsys-rep"
MOST = 16
"""Reports in one window: each is loaded whole."""
NO_WINDOW = (
    "Install Nsight Systems on this machine (its full package, not nsight-systems-cli), or read "
    "the run by `invoke html`"
)
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def open(options: OpenOptions) -> None:  # the verb's name
    """Show the recordings of a run in Nsight Systems' window, which outlives this verb."""
    choice = ReportChoice.from_options(options)
    reports = _find_recordings(choice, options)
    command = Command(argv=(WINDOW, *(str(path.resolve()) for path in reports)))
    if options.dry_run:
        print(command)
        return
    if process.find_program(WINDOW) is None:
        raise ToolError(f"{WINDOW} is not on PATH", NO_WINDOW)
    process.start_apart(command)
    print("\n".join(f"{path}: opened in Nsight Systems" for path in reports))


def _find_recordings(choice: ReportChoice, options: OpenOptions) -> list[Path]:
    """The .nsys-rep of each chosen report. Raises ReportError if one has none."""
    reports = find_report_files(choice, load_settings(options))
    copies = {report: list_copies(report) for report in reports}
    recordings = [
        next((path for path in beside if path.name.endswith(RECORDING) and path.is_file()), None)
        for beside in copies.values()
    ]
    recordings_here = [path for path in recordings if path is not None]
    if len(recordings_here) < len(reports):
        left = next(
            report
            for report, recording in zip(reports, recordings, strict=True)
            if recording is None
        )
        what = f"{left} has no {RECORDING} beside it, which Nsight Systems needs"
        raise ReportError(what, "Read it by `invoke html`")
    if len(recordings_here) > MOST:
        what = f"{len(recordings_here)} reports are too many for one window"
        raise SettingsError(what, f"Name up to {MOST} of them by --report")
    return recordings_here


def find_browser() -> str:
    """Return the program that shows a file in the user's browser. Raises ToolError without one."""
    if sys.platform == "darwin":
        return "open"
    environment = process.make_environment()
    if not any(environment.get(name) for name in _DISPLAYS):
        what = "there is no display here for --open"
        raise ToolError(what, "Leave it out, and copy the page to a machine with a browser")
    if process.find_program("xdg-open") is None:
        raise ToolError("xdg-open is not on PATH", "Install xdg-utils, or leave --open out")
    return "xdg-open"


def show_page(program: str, page: Path) -> None:
    """Show a page in the browser, which outlives this verb."""
    process.start_apart(Command(argv=(program, str(page.resolve()))))
