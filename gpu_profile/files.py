"""Write files atomically. No link is followed, and no device or FIFO replaced.

A job's container runs as root in the run directory, and another user may own a run directory.
Either can leave a link or a FIFO where a verb writes (`page.html -> ~/.ssh/authorized_keys`).
"""

import contextlib
import errno
import importlib.util
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from gpu_profile.errors import FULL_DISK, ReportError, SettingsError

PRIVATE = 0o600
_ELSEWHERE = "Name another place"
# Windows has no O_NOFOLLOW, O_CLOEXEC and O_NONBLOCK. Without O_BINARY it changes line ends.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_HAS_LOCKS = importlib.util.find_spec("fcntl") is not None  # Windows has none
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_DRAFT = re.compile(r"\..+\.[0-9a-f]{16}\.part|\.new-\w+")
"""Names of drafts and of folders for the output of other programs."""
_YOUNGEST_S = 60.0  # younger drafts are not removed: the lock follows the file within 1 ms


def write_atomically(path: Path, data: bytes | str, *, mode: int | None = None) -> None:
    """Replace `path` by a new file with this content. Raises SettingsError if that fails.

    `mode` is the most that the new file allows, less the umask: 0o640 is the mode of a `.env` that
    is written anew.
    """
    with open_draft(path, mode=mode) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def write_output(path: Path, text: str) -> None:
    """Write the file of `--output`. /dev/stdout, devices and FIFOs are written to directly.

    Raises SettingsError if that fails, such as for a FIFO that no process reads.
    """
    if not _is_stream(path):
        write_atomically(path, text)
        return
    with explain_failure(path):  # O_APPEND: /dev/stdout may be a file that was opened by `>>`
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | _NO_WAIT)
    if _NO_WAIT:
        # O_NONBLOCK was for the opening: a FIFO that nobody reads is refused, and a slow one waited
        # for.
        os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


@contextlib.contextmanager
def open_draft(path: Path, *, mode: int | None = None) -> Iterator[IO[bytes]]:
    """Open a new file beside `path` that replaces it if the body ends without an error.

    Its mode is 0600 in a directory that only its owner may enter, otherwise what the umask allows.
    Raises SettingsError if `path` is a directory, a device or a FIFO, or cannot be created.
    """
    check_target(path)
    draft, descriptor = _create_file(path, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            # remove_drafts leaves a draft alone while its lock is held.
            _try_lock(descriptor)
            yield file
            file.flush()
            with explain_failure(path):
                draft.replace(path)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in FULL_DISK and not error.filename:
            raise OSError(error.errno, error.strerror, str(path)) from error  # a write names none
        raise


class CutOutputError(Exception):
    """Raised in the body of open_output to discard the draft: the file stays as it was."""


@contextlib.contextmanager
def open_input(path: Path | None) -> Iterator[IO[bytes] | None]:
    """Open a file to be read; None without a path."""
    if path is None:
        yield None
    else:
        with path.open("rb") as file:
            yield file


@contextlib.contextmanager
def open_text(text: str) -> Iterator[IO[bytes]]:
    """Open a temporary file that holds the text, for a program's standard input."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        yield file


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[IO[bytes] | None]:
    """Open a draft of the file; None without a path. CutOutputError in the body discards it."""
    if path is None:
        yield None
    else:
        with contextlib.suppress(CutOutputError), open_draft(path) as file:
            yield file


def find_existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists, in which it can be made."""
    return next((path for path in (folder, *folder.parents) if os.access(path, os.F_OK)), folder)


def check_target(path: Path) -> None:
    """Raise SettingsError if `path` exists and is neither a regular file nor a link."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode) and (not stat.S_ISLNK(mode) or _is_stream(path)):
            raise SettingsError(f"{path} is not a regular file", _ELSEWHERE)


def check_no_input(path: Path, inputs: Iterable[Path]) -> None:
    """Raise SettingsError if `path` is one of the inputs, also by another name (link, `a/../a`)."""
    for source in inputs:
        with contextlib.suppress(OSError):  # one of both is not there
            if path.samefile(source):
                raise SettingsError(f"{path} is a report to read, and would be lost", _ELSEWHERE)


def _is_stream(path: Path) -> bool:
    """Return whether `path` leads to a device, a FIFO, or a descriptor of this process."""
    if str(path).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/")):
        return True
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
    return False


def _create_file(path: Path, mode: int | None) -> tuple[Path, int]:
    # A name has 255 bytes at most (NAME_MAX), and ours adds 23.
    draft = path.with_name(f".{path.name[:200]}.{os.urandom(8).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
    with explain_failure(path):
        if mode is None:
            mode = 0o666 if path.parent.stat().st_mode & 0o077 else PRIVATE
        descriptor = os.open(draft, flags, mode)
    return draft, descriptor


@contextlib.contextmanager
def explain_failure(path: Path) -> Iterator[None]:
    """Raise SettingsError for an OSError of the body, unless the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL_DISK:
            raise
        reason = "no process reads it" if error.errno == errno.ENXIO else error.strerror
        raise SettingsError(f"{path} cannot be written: {reason}", _ELSEWHERE) from error


@contextlib.contextmanager
def new_folder(directory: Path) -> Iterator[Path]:
    """Make a directory of mode 0700 in `directory`, for the output of another program.

    It has a random name, and is removed with its contents when the body ends. Raises SettingsError
    if it cannot be made.
    """
    with explain_failure(directory):
        temporary = tempfile.TemporaryDirectory(prefix=".new-", dir=directory)
    with temporary as folder:
        lock = lock_directory(Path(folder))
        try:
            yield Path(folder)
        finally:
            os.close(lock) if lock else None


def lock_directory(directory: Path, *, wait: bool = False) -> int | None:
    """Lock a directory (flock) until the returned descriptor is closed or the process ends.

    Returns None if another process has the lock. Without locks (Windows, some network file systems:
    https://man7.org/linux/man-pages/man2/flock.2.html) every process gets one.
    """
    descriptor = os.open(directory if _HAS_LOCKS else os.devnull, os.O_RDONLY)
    if _try_lock(descriptor, wait=wait):
        return descriptor
    os.close(descriptor)
    return None


def _try_lock(descriptor: int, *, wait: bool = False) -> bool:
    """Return False if another process has locked the file or directory."""
    if not _HAS_LOCKS:
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def remove_drafts(directory: Path) -> int:
    """Remove the drafts in a directory that killed processes of this user left; return how many."""
    drafts = [path for path in directory.iterdir() if _DRAFT.fullmatch(path.name)]
    removed = 0
    for path in drafts if _HAS_LOCKS else []:
        with contextlib.suppress(OSError):
            removed += _remove_draft(path)
    return removed


def _remove_draft(path: Path) -> bool:
    facts = path.lstat()
    kind = stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)
    if not kind or facts.st_uid != os.getuid() or time.time() - facts.st_mtime < _YOUNGEST_S:
        return False
    descriptor = os.open(path, os.O_RDONLY | _NO_LINK | _NO_WAIT)
    try:
        if not _try_lock(descriptor):
            return False
        shutil.rmtree(path) if stat.S_ISDIR(facts.st_mode) else path.unlink()
    finally:
        os.close(descriptor)
    return True


def adopt(source: Path, target: Path) -> None:
    """Rename a finished file to `target`, readable by its owner only. Raises like check_target."""
    check_target(target)
    # chmod fails for a file of a container's root; the rename works, as the directory is ours
    with contextlib.suppress(PermissionError):
        source.chmod(PRIVATE)
    source.replace(target)


def open_to_append(path: Path) -> IO[bytes]:
    """Open a log to append, mode 0600. Raises ReportError if its name is a link or a FIFO."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_LINK | _NO_WAIT
    return os.fdopen(_open_regular(path, flags), "ab")


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file to read. Raises FileNotFoundError, or ReportError for other files."""
    return os.fdopen(_open_regular(path, os.O_RDONLY | _NO_LINK | _NO_WAIT), "rb")


def read_text(path: Path, limit: int = 1 << 30) -> str:
    """Return the text of a regular file of at most `limit` bytes. Raises like open_regular."""
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ReportError(f"{path} holds more than {limit} bytes", "It is left unread")
    return data.decode(errors="replace")


def _open_regular(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags, PRIVATE)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EMLINK}:
            raise _no_file(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_file(path)
    return descriptor


def _no_file(path: Path) -> ReportError:
    return ReportError(f"{path} is a link or no regular file", "Look at it, and remove it")
