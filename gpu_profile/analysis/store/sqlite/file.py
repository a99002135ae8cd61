"""Whether a file is a whole SQLite database, and the error about a damaged one."""

import errno
import os
import sqlite3
import tempfile
from pathlib import Path

from gpu_profile.analysis.store.files.recording import advise_export
from gpu_profile.errors import ReportError

MAGIC = b"SQLite format 3\0"
SQLITE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)
"""The second is how Python raises an error of SQLite whose text quotes damaged bytes."""


def make_damaged_error(path: Path, error: Exception, written: Path | None = None) -> Exception:
    """Return the one line on a damaged file, with what to do.

    It is an OSError where the disk of `written`, or that of temporary files, is full.
    """
    if "disk is full" in str(error):  # SQLITE_FULL; Python 3.10 does not tell its number
        place = str(written or tempfile.gettempdir())
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
    return ReportError(f"{path} is damaged: {error}", advise_export(path))


def check_file(path: Path, shown: Path) -> None:
    """Raise ReportError for an incomplete SQLite file; `shown` is the name that the user gave.

    Layout of the header: https://www.sqlite.org/fileformat2.html#the_database_header
    """
    with path.open("rb") as file:
        header = file.read(100)
    size = path.stat().st_size
    again = advise_export(shown)
    if not header:
        raise ReportError(f"{shown} is empty: its export never finished", again)
    if not any(header[:16]):
        raise ReportError(f"{shown} has a zeroed header: its export was interrupted", again)
    if not header.startswith(MAGIC):
        raise ReportError(f"{shown} is not a SQLite file", "Give a .sqlite that nsys exported")
    if len(header) < 100 or size < _compute_size(header):
        raise ReportError(f"{shown} is truncated: it holds {size} bytes", again)
    if Path(f"{path}-journal").exists() or Path(f"{path}-wal").exists():
        raise ReportError(f"{shown} has a journal: its export runs or was interrupted", again)


def _compute_size(header: bytes) -> int:
    page = int.from_bytes(header[16:18], "big")
    counted = header[24:28] == header[92:96]  # true only if the page count is up to date
    return (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big") * counted
