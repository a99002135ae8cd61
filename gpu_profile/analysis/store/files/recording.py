"""How the export of a recording is made again: what recording it is of, by the names beside it."""

from pathlib import Path

TRACES = (".pt.trace.json", ".pt.trace.json.gz")
"""Traces of torch.profiler, as its handlers name them."""
_COMMAND = "nsys export --type=sqlite --force-overwrite=true"
_NO_RECORDING = f"Export it again: {_COMMAND} REPORT.nsys-rep; or give the trace that it is of"


def advise_export(export: Path) -> str:
    """What to do about a damaged export."""
    stem = export.name.removesuffix(".gz").removesuffix(".sqlite")
    recording = export.with_name(f"{stem}.nsys-rep")
    if recording.is_file():
        return f"Export it again: {_COMMAND} {recording}"
    traces = (export.with_name(stem + ending) for ending in TRACES)
    if trace := next((path for path in traces if path.is_file()), None):
        return f"Remove it, and give {trace}, which is then exported again"
    return _NO_RECORDING
