"""Export a report to SQLite, by the launcher's nsys or by one of this machine."""

import shutil
from pathlib import Path

from gpu_profile import files, process
from gpu_profile.analysis.kineto.trace_name import is_trace
from gpu_profile.command import Command, Result
from gpu_profile.errors import ReportError
from gpu_profile.launcher import Launcher
from gpu_profile.nsys import export as nsys_export
from gpu_profile.nsys.export import without_blobs
from gpu_profile.runs.reports.report_files import is_whole_export
from gpu_profile.runs.reports.validate import Report

_FULL = ("No space left on device", "disk is full", "Disk quota exceeded")
_LEAST_FREE = 1 << 20  # less free space than 1 MiB counts as a full disk


def export_fetched(launcher: Launcher, job_id: str, report: Report, nsys: str) -> None:
    """Export a report to SQLite beside it, by rename. An incomplete export is made again.

    `nsys` is that of this machine, for exports that the launcher cannot make.
    """
    if is_whole_export(report.sqlite):
        return
    with files.new_folder(report.path.parent) as folder:
        output = folder / report.sqlite.name
        if is_trace(report.path):
            _export_trace(report.path, output)
            files.adopt(output, report.sqlite)
            return
        export = launcher.export(job_id, report.path, output)
        if export is None:
            local = require_local_nsys(report.path, nsys)
            export = nsys_export.export_command((local,), report.path, output)
        check_export(report.path, output, run_export(export))
        files.adopt(output, report.sqlite)


def _export_trace(path: Path, output: Path) -> None:
    # numpy, which `fetch` of other reports needs later only, takes 0.1 s
    from gpu_profile.analysis.kineto.export import export_trace

    export_trace(path, output)


def run_export(export: Command) -> Result:
    """Run an export; run it again without NVTX payloads if this nsys cannot export them."""
    result = process.run(export)
    plain = without_blobs(export, result)
    return process.run(plain) if plain else result


def check_export(report: Path, output: Path, result: Result) -> None:
    """Raise ReportError, with the reason, unless `output` is a whole export of the report."""
    if result.returncode == 0 and is_whole_export(output):
        return
    reason = result.last_line if result.returncode else "its export is not a whole SQLite file"
    text = result.stdout + result.stderr
    if shutil.disk_usage(output.parent).free < _LEAST_FREE:
        reason = f"the disk of {report.parent} is full"
    elif any(map(text.__contains__, _FULL)):
        reason = f"the disk of {report.parent}, or of the host that exports it, is full"
    again = f"The file is kept; `invoke fetch --job {report.parent.name}` tries again"
    raise ReportError(f"{report} cannot be read: {reason}", again)


def require_local_nsys(report: Path, path: str) -> str:
    """Return the nsys of this machine that exports a report: `path`, or the one on PATH."""
    nsys = path or "nsys"
    if process.find_program(nsys) is None:
        what = f"{report} was fetched, not read: no {nsys} here"
        raise ReportError(what, "Set NSYS to one of this machine, and fetch again")
    return nsys
