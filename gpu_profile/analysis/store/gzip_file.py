"""Compressed exports (.gz), unpacked for as long as they are read."""

import gzip
import shutil
import zlib
from pathlib import Path
from typing import IO

from gpu_profile.errors import ReportError

AGAIN = "Export it again: nsys export --type=sqlite --force-overwrite=true REPORT.nsys-rep"
_ROOM = "Make room, or name another place by TMPDIR"
_SPARE_BYTES = 64 << 20  # a hostile .gz must not fill the disk


def unpack(packed: Path, folder: Path) -> Path:
    """The plain file in `folder`. Raises ReportError where it is broken, or has no room there."""
    plain = folder / packed.stem
    try:
        with gzip.open(packed) as source, plain.open("wb") as target:
            _copy(source, target, packed)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ReportError(f"{packed} is truncated or no gzip file: {error}", AGAIN) from error
    except OSError as error:
        if error.filename == str(packed):
            raise ReportError(
                f"{packed} cannot be read: {error.strerror}", "Ask its owner"
            ) from error
        what = f"{packed} cannot be unpacked into {folder.parent}: {error.strerror}"
        raise ReportError(what, _ROOM) from error
    return plain


def _copy(source: gzip.GzipFile, target: IO[bytes], packed: Path) -> None:
    while chunk := source.read(1 << 24):
        target.write(chunk)
        if shutil.disk_usage(target.name).free < _SPARE_BYTES:
            raise ReportError(f"unpacking {packed} would fill the disk", _ROOM)
