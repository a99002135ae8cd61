"""List, pack and receive a job's report files.

Only regular files with expected names are accepted, and each appears by rename. The sender (a
host, a pod or a shared directory) is not trusted: an archive may hold links, FIFOs or `../` names.
"""

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
from typing import IO, TYPE_CHECKING, cast

from job_state import NO_LINK, WORK, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

_RECORDINGS = (".nsys-rep", ".qdstrm", ".steps.json", ".pt.trace.json.gz")
_EXPORTS = (".sqlite",)
# `rank0.host.nsys-rep`, `attempt-1/rank0.host.nsys-rep`. Refused: `..`, a hidden file, what
# str.isprintable() refuses, and a leading `-`, which programs would read as an option.
_NAME = re.compile(r"(attempt-\d{1,6}/)?[^/.-][^/]{0,240}")
_ARCHIVE_ERRORS = (
    *(tarfile.TarError, EOFError, OSError),
    *(ValueError, LookupError, ArithmeticError),
)
"""What tarfile raises for damaged archives; the last three for headers that it does not check."""
_EMPTY_READS = 100
STAGE = ".fetch"
"""Where rsync writes before its files are adopted; kept after a cut connection."""


def is_expected(name: str, exports: bool = False) -> bool:
    """Return whether a report or a recording (with `exports` an export) may have this name.

    Example: `rank0.host.nsys-rep`. Pods send exports too.
    """
    endings = _RECORDINGS + _EXPORTS if exports else _RECORDINGS
    return bool(_NAME.fullmatch(name)) and name.isprintable() and name.endswith(endings)


def names(job: Path) -> list[str]:
    """Return the report names relative to the job's directory, sorted.

    A job that Slurm requeued has a folder for each earlier attempt:
    `attempt-1/rank0.host.nsys-rep`.
    """
    inside = [
        *job.iterdir(),
        *(p for d in job.glob("attempt-*") if _is_folder(d) for p in d.iterdir()),
    ]
    recordings = [path.relative_to(job) for path in inside if path.name.endswith(_RECORDINGS)]
    regular = [path for path in recordings if stat.S_ISREG((job / path).lstat().st_mode)]
    return sorted(p.as_posix() for p in regular if p.parts[0] != WORK and is_expected(p.as_posix()))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def copy(job: Path, to: Path) -> None:
    """Copy the reports into `to`, each by rename. `to` may be the job's own directory."""
    if job.resolve() == to.resolve():
        return
    for name in names(job):
        with _open_regular(job / name) as source:
            _store(source, to, name)


def take(job: Path, to: Path) -> None:
    """Move the reports into `to`, each by rename of a copy: they may belong to another user."""
    for name in names(job):
        with _open_regular(job / name) as source:
            _store(source, to, name)
        (job / name).unlink()


def pack(job: Path) -> None:
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for name in names(job):
            # A link that was put there meanwhile is packed as a link, which unpack refuses.
            archive.add(str(job / name), name)


class _EndingFile:
    """A file to read once, which raises EOFError instead of an endless number of empty reads.

    A member's header can tell a size of 10^20 bytes, which tarfile tries to skip in small reads.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._empty_reads = 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._empty_reads += not data
        if self._empty_reads > _EMPTY_READS:
            raise EOFError("a member is longer than the archive")
        return data


def unpack(archive_path: Path, to: Path, exports: bool = False) -> None:
    """Extract the expected reports of a tar archive by rename; refuse other members.

    The archive is removed in either case. Raises RefusedError (exit code 3).
    """
    try:
        with archive_path.open("rb") as file:
            refused = _extract_all(file, to, exports)
    except _ARCHIVE_ERRORS as error:
        raise RefusedError(f"what came of it is incomplete: {error}", 3) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            archive_path.unlink()
    _refuse(refused, "the archive")


def _extract_all(file: IO[bytes], to: Path, exports: bool) -> list[str]:
    """Extract the expected members; return the names of the others."""
    ending = cast("IO[bytes]", _EndingFile(file))
    with tarfile.open(fileobj=ending, mode="r|") as archive:
        return [member.name for member in archive if not _extract(archive, member, to, exports)]


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path, exports: bool) -> bool:
    # A sparse member of 1 KB can tell a size of 8 EiB, and would be written with all its zeros.
    plain = member.isreg() and not member.issparse()
    source = archive.extractfile(member) if plain else None
    if source is None or not is_expected(member.name, exports):
        return False
    _store(source, to, member.name)
    return True


def _refuse(names_: list[str], what: str) -> None:
    if names_:
        raise RefusedError(f"{what} holds {names_[0]!r}, which is not a report", 3)


def stage(to: Path) -> None:
    """Make the directory that rsync writes into. One that a cut connection left is used again."""
    folder = to / STAGE
    if os.path.lexists(str(folder)) and not _is_folder(folder):
        folder.unlink()
    folder.mkdir(mode=0o700, exist_ok=True)


def adopt(to: Path) -> None:
    """Move the expected files from rsync's directory into `to` and remove that directory.

    Raises RefusedError for other files, as unpack does.
    """
    folder = to / STAGE
    refused: list[str] = []
    for path in sorted(p for p in folder.rglob("*") if not _is_folder(p)):
        name = path.relative_to(folder).as_posix()
        # .partial is rsync's --partial-dir: half of a file, from a connection that was cut.
        if not name.startswith(".partial/") and not _adopted(path, to, name):
            refused.append(name)
    shutil.rmtree(str(folder))
    _refuse(refused, "what came")


def _adopted(path: Path, to: Path, name: str) -> bool:
    if not is_expected(name) or not stat.S_ISREG(path.lstat().st_mode):
        return False
    # rsync brings the mode that the sender chose.
    path.chmod(0o600)
    _place(to, name)
    path.replace(to / name)
    return True


def _place(to: Path, name: str) -> Path:
    """Return the folder for a name: `to` itself, or `to/attempt-1` for an earlier attempt."""
    folder = (to / name).parent
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder != to and not _is_folder(folder):
        raise RefusedError(f"{folder} is a link. Look at it, and remove it", 3)
    return folder


def _store(source: IO[bytes], to: Path, name: str) -> None:
    """Write `to/name` through a temporary file in the same folder, mode 0600, then rename it."""
    descriptor, draft = tempfile.mkstemp(".part", ".", str(_place(to, name)))
    try:
        with os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(source, file)
        Path(draft).replace(to / name)
    # Also for KeyboardInterrupt: a draft of some GB would stay behind.
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(draft).unlink()
        raise


@contextlib.contextmanager
def _open_regular(path: Path) -> Iterator[IO[bytes]]:
    with os.fdopen(os.open(str(path), os.O_RDONLY | NO_LINK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise RefusedError(f"{path} is not a regular file", 3)
        yield file
