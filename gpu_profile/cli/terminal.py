"""Showing tables and commands, asking, and running on the user's terminal."""

import shutil
import signal
import sys
from collections.abc import Iterable, Sequence

from gpu_profile import process
from gpu_profile.cli.table import Options
from gpu_profile.command import Command
from gpu_profile.errors import GpuProfileError, SettingsError
from gpu_profile.printable import printable_lines
from gpu_profile.table import Table

_INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)


def show_commands(commands: Iterable[Command]) -> None:
    """What --dry-run prints: each command as a line to paste, its input below it."""
    for command in commands:
        print(command)
        if command.stdin:
            print(command.stdin.rstrip("\n"))


def run_or_raise(command: Command, kind: type[GpuProfileError]) -> None:
    """Run on the user's terminal; a failure is one line of that kind."""
    code = process.run_attached(command)
    if code in _INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise kind(f"`{command}` exited with {code}", "See its message above")


def ask_user(question: str, options: Options) -> bool:
    """The user's yes: by --yes, or on a terminal."""
    if options.get("yes"):
        return True
    return sys.stdin.isatty() and input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}


def print_tables(tables: Sequence[Table], form: str, names: str = "short") -> None:
    """Print tables as text (sized to the terminal), CSV or JSON.

    `names`: "short" makes a kernel's name fit into the text's line, "full" leaves it whole. CSV
    and JSON have whole names. Raises SettingsError for any other form or names.
    """
    from gpu_profile import table_formats as writers

    if names not in ("short", "full"):
        raise SettingsError(f"--names {names!r} is not known", "Use short or full")
    if form == "json":
        sys.stdout.write(writers.to_json(tables))
    elif form == "csv":
        text = "\n".join(writers.to_csv(table) for table in tables)
        sys.stdout.write(printable_lines(text) if sys.stdout.isatty() else text)
    elif form == "text":
        width = shutil.get_terminal_size((120, 40)).columns if names == "short" else sys.maxsize
        sys.stdout.write("\n".join(writers.to_text(table, width) for table in tables))
    else:
        raise SettingsError(f"--format {form!r} is not known", "Use text, csv or json")
