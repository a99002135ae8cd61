"""Export a report with an nsys of this machine or of the image, and a trace without one."""

import atexit
from pathlib import Path

from gpu_profile import files, process
from gpu_profile.analysis.kineto.export import export_trace
from gpu_profile.analysis.kineto.trace_name import is_trace
from gpu_profile.analysis.store.files.temporary import TemporaryFolder
from gpu_profile.command import ENGINE
from gpu_profile.engine import image_programs
from gpu_profile.errors import ReportError, ToolError
from gpu_profile.job import Mount
from gpu_profile.nsys import export
from gpu_profile.runs import owner
from gpu_profile.runs.reports.export_report import run_export
from gpu_profile.runs.reports.report_files import is_whole_export, strip_suffix
from gpu_profile.settings.settings import Settings


def export_report(path: Path, settings: Settings) -> Path:
    """Return the SQLite export of a .nsys-rep or a trace, made beside it by rename.

    In another user's directory it is made in a temporary folder, which this process removes at its
    end.
    """
    if not owner.is_writable(path.parent):
        temporary = TemporaryFolder()
        atexit.register(temporary.cleanup)
        return _export_into(Path(temporary.name), path, settings)
    with files.new_folder(path.parent.absolute()) as folder:
        output = _export_into(folder, path, settings)
        files.adopt(output, target := path.with_name(output.name))
        return target


def _export_into(folder: Path, path: Path, settings: Settings) -> Path:
    output = folder / f"{strip_suffix(path)}.sqlite"
    if is_trace(path):
        export_trace(path, output)
        return output
    if not path.stat().st_size:
        raise ReportError(f"{path} is empty: its recording never ended", "Record the run again")
    failures = []
    for prefix in _list_exporters(path, folder, settings):
        result = run_export(export.export_command(prefix, path.absolute(), output))
        if result.returncode == 0 and is_whole_export(output):
            return output
        failures.append(result.last_line)
    if not failures:
        raise ToolError(f"{path} needs an nsys to export it", "Set NSYS, or `invoke build`")
    raise ReportError(f"{path} cannot be exported: {failures[-1]}", "The nsys that recorded it can")


def _list_exporters(path: Path, folder: Path, settings: Settings) -> list[tuple[str, ...]]:
    """Return the nsys of settings and PATH, then that of the image.

    The image's container mounts the report.
    """
    commands: list[tuple[str, ...]] = [
        (name,) for name in (settings.nsys, process.find_program("nsys")) if name
    ]
    if process.find_program(ENGINE) is None:
        return commands
    report, place = path.parent.absolute(), folder.absolute()
    mounts = (
        Mount(source=report, target=str(report), read_only=True),
        Mount(source=place, target=str(place)),
    )
    return [*commands, image_programs.make_program_words(settings.image_ref, mounts, "nsys")]
