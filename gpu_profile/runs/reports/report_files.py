"""Find the report files that a run, a directory or a path stands for."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gpu_profile.analysis.kineto.trace_name import JSON_ENDINGS, is_trace
from gpu_profile.analysis.store.files.recording import TRACES
from gpu_profile.analysis.store.sqlite.file import check_file
from gpu_profile.command import Command
from gpu_profile.errors import ReportError

# The plain one first: it needs no unpacking where both lie side by side.
READABLE = (".sqlite", ".sqlite.gz")
_RECORDINGS = (".nsys-rep", *TRACES)
"""In a directory; it may hold other JSON files."""
_MOST_SHOWN = 3  # directories that an error names
_WHICH = "Give a .sqlite, .nsys-rep or .pt.trace.json"
Export = Callable[[Path], Command]


def is_readable(path: Path) -> bool:
    """Return whether a report needs no export: SQLite, SQLite.gz, nsys' Parquet directory."""
    parquet = path.is_dir() and any(path.glob("*.parquet"))
    return parquet or (path.is_file() and path.name.endswith(READABLE))


def is_whole_export(path: Path) -> bool:
    """Return whether this is a complete SQLite file and no link."""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        check_file(path, path)
    except ReportError:
        return False
    return True


def needs_export(path: Path) -> bool:
    """Return whether a file is read by its export: a .nsys-rep, or a trace of torch.profiler."""
    return path.suffix == ".nsys-rep" or is_trace(path)


def find_reports(places: Iterable[str]) -> tuple[Path, ...]:
    """Return the reports of these paths, each once, in a stable order.

    A directory stands for the reports in it; a .nsys-rep or a trace of torch.profiler for its
    export beside it, or for itself.
    Raises ReportError if there is none.
    """
    paths: dict[Path, None] = {}
    for place in places:
        paths |= dict.fromkeys(_list_reports(Path(place)))
    return tuple(paths)


def _list_reports(path: Path) -> list[Path]:
    if not path.exists():
        raise ReportError(f"{path} does not exist", "`invoke reports` lists the runs")
    if is_readable(path):
        return [path]
    if path.is_file():
        return [find_export(path) or path]
    if not path.is_dir():
        raise ReportError(f"{path} is neither a file nor a directory", "Give a report or a run")
    recording_by_stem = {
        strip_suffix(child): child
        for child in path.iterdir()
        if child.name.endswith(_RECORDINGS) and child.is_file()
    }
    inside = [child for child in path.iterdir() if is_readable(child)]
    inside = [child for child in inside if not _is_to_repeat(child, recording_by_stem)]
    stems = {strip_suffix(child) for child in inside}
    recordings = [child for stem, child in recording_by_stem.items() if stem not in stems]
    if not inside and not recordings:
        raise _make_none_error(path)
    return sorted(inside + recordings, key=_sort_key)


def _make_none_error(directory: Path) -> ReportError:
    """Return the error of a directory without reports; it names directories below that have some.

    A profiler's handler may make one for each process, and REPORT_DIR has one for each run.
    """
    endings = (*READABLE, *_RECORDINGS)
    below = {child.parent.name for child in directory.glob("*/*") if child.name.endswith(endings)}
    names = sorted(below)[:_MOST_SHOWN]
    if len(below) > _MOST_SHOWN:
        names.append("…")
    hint = f"Give one of its directories: {', '.join(names)}" if below else _WHICH
    return ReportError(f"{directory} holds no report", hint)


def _is_to_repeat(export: Path, recording_by_stem: Mapping[str, Path]) -> bool:
    """Return whether an export is incomplete, or of an earlier trace that had this name, and the
    recording to repeat it from is there.
    """
    recording = recording_by_stem.get(strip_suffix(export))
    if recording is None or not (export.name.endswith(".sqlite") and export.is_file()):
        return False
    return not is_whole_export(export) or _is_of_earlier(export, recording)


def _is_of_earlier(export: Path, recording: Path) -> bool:
    """Return whether an export is of a trace that the program has since written again.

    A .nsys-rep may be fetched after its export: there its time says nothing.
    """
    if not is_trace(recording) or export.stat().st_mtime_ns >= recording.stat().st_mtime_ns:
        return False
    return _is_of_trace(export)


def _is_of_trace(export: Path) -> bool:
    # numpy, which a verb needs later only, takes 0.1 s
    from gpu_profile.analysis.kineto.source import is_of_trace

    return is_of_trace(export)


def find_export(path: Path) -> Path | None:
    """Return the complete export beside a file that needs one, or None.

    Raises ReportError where what has the name of a trace's export is another report: of nsys, of a
    program that was recorded by both.
    """
    if not needs_export(path):
        return None
    for ending in READABLE:
        export = path.with_name(strip_suffix(path) + ending)
        if not export.exists() or _is_to_repeat(export, {strip_suffix(path): path}):
            continue
        if is_trace(path) and not _is_of_trace(export):
            raise ReportError(f"{export} is not an export of {path.name}", "Move one of them")
        return export
    return None


def find_hidden_trace(report: Path) -> Path | None:
    """Return the trace of torch.profiler that a directory does not show, because nsys' report has
    the name of the trace's export.
    """
    beside = (report.with_name(strip_suffix(report) + ending) for ending in TRACES)
    trace = next((path for path in beside if path.is_file()), None)
    return trace if trace and is_readable(report) and not _is_of_trace(report) else None


def list_copies(report: Path) -> list[Path]:
    """Return a report's file or tables, with the recording and the exports that may lie beside it.

    Of rank0.sqlite these are rank0.sqlite, rank0.sqlite.gz and rank0.nsys-rep.
    """
    stem = strip_suffix(report)
    beside = [report.with_name(stem + ending) for ending in (*READABLE, *_RECORDINGS)]
    return [report, *beside, *report.glob("*.parquet")]


def strip_suffix(path: Path) -> str:
    """Return the name without the endings of reports: rank0.node1 of rank0.node1.nsys-rep."""
    for ending in (*READABLE, *_RECORDINGS, *JSON_ENDINGS):
        if path.name.endswith(ending):
            return path.name.removesuffix(ending)
    return path.name


def _sort_key(path: Path) -> tuple[object, ...]:
    """Return a key that sorts rank2 before rank10."""
    import re

    parts = re.split(r"(\d+)", path.name)
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)
