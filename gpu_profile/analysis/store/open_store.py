"""The store of a report: a Parquet folder, or nsys' SQLite export."""

from pathlib import Path

from gpu_profile.analysis.store.parquet import ParquetStore
from gpu_profile.analysis.store.protocol import Store
from gpu_profile.analysis.store.sqlite.store import SqliteStore
from gpu_profile.errors import ReportError


def open_store(path: Path, most_bytes: int) -> Store:
    """Open a report. Raises ReportError for one that is not there or not exported."""
    if path.is_dir():
        return ParquetStore(path)
    if not path.exists():
        raise ReportError(f"{path} does not exist", "`invoke reports` lists what there is")
    if path.suffix == ".nsys-rep":
        raise ReportError(f"{path} is not exported", f"Run: nsys export --type=sqlite {path}")
    return SqliteStore(path, most_bytes)
