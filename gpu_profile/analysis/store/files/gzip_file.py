"""Unpack compressed exports (.gz) into a temporary folder.

What only a .gz needs is imported for one: that takes 8 ms, and a table of a plain report 0.2 s.
"""

from io import BufferedIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING

from gpu_profile.analysis.store.files.recording import advise_export
from gpu_profile.errors import ReportError

if TYPE_CHECKING:
    from gpu_profile.analysis.store.files.temporary import TemporaryFolder

MOST_BYTES = 16 << 30
"""The default limit for the size of an unpacked report, because 2 MB of .gz can hold 2 GB of zeros.

nsys' exports are 3 to 10 times as large as their .gz, so any .gz up to 1.6 GB stays below it.
"""
_ROOM = "Make room, or name another place by TMPDIR"
_SPARE_BYTES = 64 << 20  # disk space to leave free: a hostile .gz must not fill the disk


def make_folder() -> "TemporaryFolder":
    """Return a temporary folder to unpack a report into."""
    from gpu_profile.analysis.store.files.temporary import TemporaryFolder

    return TemporaryFolder()


def extract_gzip(packed: Path, folder: Path, most_bytes: int = MOST_BYTES) -> Path:
    """Unpack the file into `folder` and return its path.

    Raises ReportError if it is broken, does not fit there, or is larger than `most_bytes`.
    """
    import gzip
    import zlib

    plain = folder / packed.stem
    try:
        with gzip.open(packed) as source, plain.open("wb") as target:
            _copy_bounded(source, target, packed, most_bytes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ReportError(
            f"{packed} is truncated or no gzip file: {error}", advise_export(packed)
        ) from error
    except OSError as error:
        if error.filename == str(packed):
            raise ReportError(
                f"{packed} cannot be read: {error.strerror}", "Ask its owner"
            ) from error
        what = f"{packed} cannot be unpacked into {folder.parent}: {error.strerror}"
        raise ReportError(what, _ROOM) from error
    return plain


def _copy_bounded(source: BufferedIOBase, target: IO[bytes], packed: Path, most_bytes: int) -> None:
    """Copy at most `most_bytes`, counted while unpacking.

    The size in a gzip trailer is modulo 4 GB (RFC 1952) and can be forged.
    """
    import shutil

    done = 0
    while chunk := source.read(1 << 22):
        done += len(chunk)
        if done > most_bytes:
            raise ReportError(
                f"{packed} unpacks to more than {most_bytes / 1e9:.3g} GB",
                "Set UNPACK_LIMIT_GB higher if nsys exported it",
            )
        target.write(chunk)
        if shutil.disk_usage(target.name).free < _SPARE_BYTES:
            raise ReportError(f"unpacking {packed} would fill the disk", _ROOM)
