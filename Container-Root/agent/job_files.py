"""What a job leaves to be fetched, and the one way in which it is taken: regular files of expected
names, each by rename. What a host, a pod or a shared directory sends may be anything."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING

from job_state import NO_LINK, WORK, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

_RECORDINGS, _EXPORTS = (".nsys-rep", ".qdstrm"), (".sqlite",)
# `rank0.host.nsys-rep`, `attempt-1/rank0.host.nsys-rep`: no `..`, no hidden file, no control
# character, no option.
_NAME = re.compile(r"(attempt-\d{1,6}/)?[^/\x00-\x1f\x7f.-][^/\x00-\x1f\x7f]{0,240}")
STAGE = ".fetch"
"""Where rsync writes before its files are adopted; kept after a cut connection."""


def is_expected(name: str, exports: bool = False) -> bool:
    """Whether a report, a recording (or, from pods, an export) may have this name."""
    endings = _RECORDINGS + _EXPORTS if exports else _RECORDINGS
    return bool(_NAME.fullmatch(name)) and name.endswith(endings)


def names(job: Path) -> list[str]:
    """Relative to the job's directory; attempts before a requeue have folders of their own."""
    inside = [
        *job.iterdir(),
        *(p for d in job.glob("attempt-*") if _is_folder(d) for p in d.iterdir()),
    ]
    found = [path.relative_to(job) for path in inside if path.suffix in _RECORDINGS]
    regular = [path for path in found if stat.S_ISREG((job / path).lstat().st_mode)]
    return sorted(p.as_posix() for p in regular if p.parts[0] != WORK and is_expected(p.as_posix()))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def copy(job: Path, to: Path) -> None:
    """Copy what is to be fetched, each whole or not at all. Onto itself it is no work."""
    if job.resolve() == to.resolve():
        return
    for name in names(job):
        with _open_regular(job / name) as source:
            _store(source, to, name)


def pack(job: Path) -> None:
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for name in names(job):
            archive.add(str(job / name), name)


def unpack(archive_path: Path, to: Path, exports: bool = False) -> None:
    """Take what is expected, each whole or not at all; then refuse the archive for the rest."""
    refused: list[str] = []
    try:
        with tarfile.open(archive_path, mode="r|") as archive:
            for member in archive:
                if not _extract(archive, member, to, exports):
                    refused.append(member.name)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise RefusedError(f"what came of it is incomplete: {error}", 3) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            archive_path.unlink()
    _refuse(refused, "the archive")


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path, exports: bool) -> bool:
    source = archive.extractfile(member) if member.isreg() else None
    if source is None or not is_expected(member.name, exports):
        return False
    _store(source, to, member.name)
    return True


def _refuse(names_: list[str], what: str) -> None:
    if names_:
        raise RefusedError(f"{what} holds {names_[0]!r}, which is no report", 3)


def stage(to: Path) -> None:
    """Make the directory that rsync may write into, or find it as a cut connection left it."""
    folder = to / STAGE
    if os.path.lexists(str(folder)) and not _is_folder(folder):
        folder.unlink()
    folder.mkdir(mode=0o700, exist_ok=True)


def adopt(to: Path) -> None:
    """Take what rsync brought, as unpack does of an archive, and remove the rest."""
    folder = to / STAGE
    refused: list[str] = []
    for path in sorted(p for p in folder.rglob("*") if not _is_folder(p)):
        name = path.relative_to(folder).as_posix()
        if not name.startswith(".partial/") and not _adopted(path, to, name):
            refused.append(name)
    shutil.rmtree(str(folder))
    _refuse(refused, "what came")


def _adopted(path: Path, to: Path, name: str) -> bool:
    if not is_expected(name) or not stat.S_ISREG(path.lstat().st_mode):
        return False
    path.chmod(0o600)
    _place(to, name)
    path.replace(to / name)
    return True


def _place(to: Path, name: str) -> Path:
    """The folder of a name in `to`: `to` itself, or a folder of an attempt."""
    folder = (to / name).parent
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder != to and not _is_folder(folder):
        raise RefusedError(f"{folder} is a link. Look at it, and remove it", 3)
    return folder


def _store(source: IO[bytes], to: Path, name: str) -> None:
    """Write `to/name` by way of a new file beside it, mode 0600."""
    descriptor, draft = tempfile.mkstemp(".part", ".", str(_place(to, name)))
    try:
        with os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(source, file)
        Path(draft).replace(to / name)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(draft).unlink()
        raise


@contextlib.contextmanager
def _open_regular(path: Path) -> Iterator[IO[bytes]]:
    with os.fdopen(os.open(str(path), os.O_RDONLY | NO_LINK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise RefusedError(f"{path} is no regular file", 3)
        yield file
