"""Print tables and commands, ask the user, and run programs on the user's terminal."""

import errno
import os
import shutil
import signal
import stat
import sys
from collections.abc import Iterable, Sequence

from gpu_profile import process, program_output
from gpu_profile.command import Command
from gpu_profile.errors import GpuProfileError, SettingsError
from gpu_profile.printable import name_program, printable_lines
from gpu_profile.table import Table

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)


def print_message(message: str) -> None:
    """Print one of our messages, with the program's name as the user typed it."""
    print(name_program(message), flush=True)


def show_commands(commands: Iterable[Command]) -> None:
    """Print each command as a line to paste, with its standard input below it, for --dry-run."""
    for command in commands:
        print(command)
        if command.stdin:
            print(printable_lines(command.stdin.rstrip("\n")))


def run_or_raise(command: Command, kind: type[GpuProfileError]) -> None:
    """Run a command on the user's terminal. Raises an error of `kind` if it fails."""
    code = process.run_attached(command)
    if code in _INTERRUPTED:
        raise KeyboardInterrupt
    _raise_failure(command, code, kind)


def copy_or_raise(command: Command, copy: program_output.Copy, kind: type[GpuProfileError]) -> None:
    """Print a program's output through `copy`. Raises an error of `kind` if it fails."""
    sys.stdout.flush()
    code = program_output.copy_output(command, sys.stdout.buffer, copy)
    sys.stdout.flush()
    _raise_failure(command, code, kind)


def _raise_failure(command: Command, code: int, kind: type[GpuProfileError]) -> None:
    """Raise an error of `kind` if the exit code is not 0."""
    if code:
        raise kind(f"`{command}` exited with {code}", "See its message above")


def has_waiting_input() -> bool:
    """Return whether standard input is a file or a pipe with data in it."""
    try:
        import fcntl
        import termios

        facts = os.fstat(0)
        if stat.S_ISREG(facts.st_mode):
            return facts.st_size > 0
        return stat.S_ISFIFO(facts.st_mode) and any(fcntl.ioctl(0, termios.FIONREAD, bytes(4)))
    except (ImportError, OSError):  # Windows, or a closed one
        return False


def ask_user(question: str, *, yes: bool) -> bool:
    """Return whether the user agrees, by --yes or on a terminal."""
    if yes:
        return True
    return sys.stdin.isatty() and input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}


def print_tables(tables: Sequence[Table], form: str, names: str = "short") -> None:
    """Print tables as text (sized to the terminal), CSV or JSON.

    With `names` "short", names of kernels are shortened to fit a line of text; with "full" they
    are not. CSV and JSON have full names. Raises SettingsError for other forms or names.
    """
    from gpu_profile.formats import table_formats

    if names not in ("short", "full"):
        raise SettingsError(f"--names {names!r} is not known", "Use short or full")
    if form == "json":
        sys.stdout.write(table_formats.to_json(tables))
    elif form == "csv":
        text = "\n".join(table_formats.to_csv(table) for table in tables)
        sys.stdout.write(printable_lines(text) if sys.stdout.isatty() else text)
    elif form == "text":
        width = shutil.get_terminal_size((120, 40)).columns if names == "short" else sys.maxsize
        sys.stdout.write("\n".join(_format_table(table, width) for table in tables))
    else:
        raise SettingsError(f"--format {form!r} is not known", "Use text, csv or json")


def _format_table(table: Table, width: int) -> str:
    """Return the text of a table; without the columns that a terminal has no room for."""
    from gpu_profile.formats import table_formats

    if not sys.stdout.isatty():
        return table_formats.to_text(table, width)
    fitting, left_out = table_formats.fit_columns(table, width)
    note = f"not shown: {', '.join(left_out)}; --format csv has all\n" if left_out else ""
    return table_formats.to_text(fitting, width) + note


def is_output_full() -> bool:
    """Return whether the output takes no more, as on a full disk.

    Python forgets a long text that could not be written, so an empty line is tried.
    """
    try:
        print(flush=True)
    except OSError as error:
        return error.errno in _NO_ROOM
    return False


def drop_output(error: OSError) -> int:
    """Drop what is left to print, and return the exit code.

    That is 0 if the reader of the output, such as `head`, has gone, and 3 with one line if there is
    no room. Raises other errors again.
    """
    if not isinstance(error, BrokenPipeError) and error.errno not in _NO_ROOM:
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 0
    sys.stderr.write(f"error: the output: {error.strerror}. Make room, or choose another place.\n")
    return 3
