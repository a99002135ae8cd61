"""Find the report files that a run, a directory or a path stands for."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gpu_profile.analysis.store.sqlite.file import check_file
from gpu_profile.command import Command
from gpu_profile.errors import ReportError

READABLE = (".sqlite", ".sqlite.gz")
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


def find_reports(places: Iterable[str]) -> tuple[Path, ...]:
    """Return the reports of these paths, each once, in a stable order.

    A directory stands for the reports in it; a .nsys-rep for its export beside it, or for itself.
    Raises ReportError if there is none.
    """
    paths: dict[Path, None] = {}
    for place in places:
        paths |= dict.fromkeys(_list_behind(Path(place)))
    return tuple(paths)


def _list_behind(path: Path) -> list[Path]:
    if not path.exists():
        raise ReportError(f"{path} does not exist", "`invoke reports` lists the runs")
    if is_readable(path):
        return [path]
    if path.is_file():
        return [find_export(path) or path]
    if not path.is_dir():
        raise ReportError(f"{path} is no file and no directory", "Give a report or a run")
    recording_by_stem = {
        _strip_suffix(child): child for child in path.glob("*.nsys-rep") if child.is_file()
    }
    inside = [child for child in path.iterdir() if is_readable(child)]
    inside = [child for child in inside if not _is_cut(child, recording_by_stem)]
    stems = {_strip_suffix(child) for child in inside}
    recordings = [child for stem, child in recording_by_stem.items() if stem not in stems]
    if not inside and not recordings:
        raise ReportError(f"{path} holds no report", "Give a .sqlite, .sqlite.gz or .nsys-rep")
    return sorted(inside + recordings, key=_sort_key)


def _is_cut(export: Path, recording_by_stem: Mapping[str, Path]) -> bool:
    """Return whether an export is incomplete and the recording to repeat it from is there."""
    plain = export.name.endswith(".sqlite") and export.is_file()
    return plain and _strip_suffix(export) in recording_by_stem and not is_whole_export(export)


def find_export(path: Path) -> Path | None:
    """Return the complete export beside a .nsys-rep, or None."""
    beside = (path.with_name(_strip_suffix(path) + ending) for ending in READABLE)
    is_whole = (
        export
        for export in beside
        if export.exists() and not _is_cut(export, {_strip_suffix(path): path})
    )
    return next(is_whole, None) if path.suffix == ".nsys-rep" else None


def list_copies(report: Path) -> list[Path]:
    """Return a report's file or tables, with the recording and the exports that may lie beside it.

    Of rank0.sqlite these are rank0.sqlite, rank0.sqlite.gz and rank0.nsys-rep.
    """
    stem = _strip_suffix(report)
    beside = [report.with_name(stem + ending) for ending in (*READABLE, ".nsys-rep")]
    return [report, *beside, *report.glob("*.parquet")]


def _strip_suffix(path: Path) -> str:
    for ending in (*READABLE, ".nsys-rep"):
        if path.name.endswith(ending):
            return path.name.removesuffix(ending)
    return path.name


def _sort_key(path: Path) -> tuple[object, ...]:
    """Return a key that sorts rank2 before rank10."""
    import re

    parts = re.split(r"(\d+)", path.name)
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)
