"""Export a report with an nsys of this machine, or the image's."""

from pathlib import Path

from gpu_profile import process
from gpu_profile.errors import ReportError, ToolError
from gpu_profile.launchers.docker import DockerLauncher
from gpu_profile.nsys import export as nsys_export
from gpu_profile.settings.settings import Settings


def exported(path: Path, chosen: Settings) -> Path:
    """The export of a .nsys-rep, made beside it."""
    target = path.with_suffix(".sqlite")
    failures = []
    for prefix in _exporters(path, chosen):
        result = process.run(nsys_export.export_command(prefix, path))
        if result.returncode == 0 and target.exists():
            return target
        failures.append(result.said)
    if not failures:
        raise ToolError(f"{path} needs an nsys to export it", "Set NSYS, or `invoke build`")
    raise ReportError(f"{path} cannot be exported: {failures[-1]}", "Its own nsys version can")


def _exporters(path: Path, chosen: Settings) -> list[tuple[str, ...]]:
    """nsys as settings or PATH have it, then the image's, seeing the report where it lies."""
    found: list[tuple[str, ...]] = [
        (name,) for name in (chosen.nsys, process.which("nsys")) if name
    ]
    if process.which("docker") is None:
        return found
    launcher = DockerLauncher.from_settings(chosen)
    return [*found, launcher.tool_in(path.parent.absolute(), "nsys")]
