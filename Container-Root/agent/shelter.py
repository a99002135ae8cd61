"""Keep nsys' umask 0, blocked signals and pipes from its program. Python 3.8, stdlib only.

nsys 2023.4.4 and 2025.3.1 start programs with umask 0, so that all users could change the files
that the program makes. They copy what the program prints into the report.

Slurm signals every process of a step: the program, which should end, and nsys, which drops its
report at the second signal. The first signal comes from `invoke stop` or the time limit, the
second from srun after a rank has failed. nsys keeps the signal mask that it is started with.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mpirun_watch import is_mpirun
from rank_processes import say
from start_program import COPIED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NUMBERS = [getattr(signal, n) for n in ("SIGHUP", "SIGINT", "SIGTERM") if os.name == "posix"]
_FOLDER = "gpu-profile-report-"  # `invoke` sweeps folders of this name that kill -9 left
_START = Path(__file__).resolve().with_name("start_program.py")


@contextlib.contextmanager
def block_signals(wanted: bool) -> Iterator[None]:
    """Block the signals for programs started in the body. Our own come after the body."""
    if not wanted or not _NUMBERS:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _NUMBERS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Program(NamedTuple):
    """The command line that nsys starts. `mark`: a file that its start removes, or None.

    `has_outputs`: it prints to our stdout and stderr by itself, not through nsys.
    """

    words: Sequence[str]
    mark: Path | None = None
    has_outputs: bool = False

    def has_started(self) -> bool:
        """Return whether nsys has started the program; True where that cannot be known."""
        return self.mark is None or not self.mark.exists()


@contextlib.contextmanager
def wrap_command(
    command: Sequence[str], unblock: bool, give_outputs: bool = True
) -> Iterator[Program]:
    """Yield the command after start_program.py, which restores umask and signals and executes it.

    With `give_outputs` the program prints to our stdout and stderr, not to nsys' pipes. The report
    has the name of the file that nsys starts, so that file is a link to Python with the program's
    name. An mpirun stays as it is.
    """
    if not _NUMBERS or is_mpirun(command):
        yield Program(command)
        return
    with contextlib.ExitStack() as folders:
        python, mark = sys.executable, None
        with contextlib.suppress(OSError):  # no room or right in TMPDIR: the name is python3
            folder = folders.enter_context(make_held_folder())
            python, mark = _fill_folder(folder, Path(command[0]).name)
        numbers = " ".join(str(int(number)) for number in _NUMBERS if unblock)
        outputs = _find_outputs() if give_outputs else ""
        # -I -S: this short start must run neither our marks nor a sitecustomize of the user's.
        start = [python, "-I", "-S", str(_START), str(mark or ""), f"{_umask():04o}", numbers]
        yield Program([*start, outputs, *command], mark, bool(outputs))


def _find_outputs() -> str:
    """Return "PID INODE INODE": where start_program.py finds stdout and stderr of this process.

    Returns "" where it cannot open them, and says that nsys copies the output.
    """
    obstacle = _find_obstacle(1, "stdout") or _find_obstacle(2, "stderr")
    if obstacle:
        say(f"{COPIED}: {obstacle}")
        return ""
    return " ".join(map(str, (os.getpid(), os.fstat(1).st_ino, os.fstat(2).st_ino)))


def _find_obstacle(number: int, name: str) -> str:
    """Return why the program could not open this descriptor and write after us, or "".

    A file has an offset for each opening, so that nsys and the program would overwrite each other.
    """
    import fcntl

    try:
        mode = os.fstat(number).st_mode
    except OSError as error:
        return f"{name}: {error.strerror}"
    if stat.S_ISSOCK(mode):
        return f"{name} is a socket"
    if stat.S_ISREG(mode) and not fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND:
        return f"{name} is a file that is not open for appending (>>)"
    return ""


def _fill_folder(folder: Path, name: str) -> tuple[str, Path]:
    """Make a link to Python and the mark; return their paths."""
    (folder / "link").mkdir()
    link, mark = folder / "link" / name, folder / "mark"
    link.symlink_to(sys.executable)
    mark.touch()
    return str(link), mark


@contextlib.contextmanager
def make_held_folder() -> Iterator[Path]:
    """Make a temporary folder for the body, which `invoke` leaves alone meanwhile."""
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as name, _hold_folder(Path(name)):
        yield Path(name)


@contextlib.contextmanager
def _hold_folder(folder: Path) -> Iterator[None]:
    """Lock a folder (flock) while the body runs.

    `invoke` removes folders of this name that no process has locked.
    """
    # Not at the top: Windows has no fcntl.
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks: nothing is swept there
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _umask() -> int:
    """Return this process's umask. The only portable way to read it is to set it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask
