"""Command, one program call as a value that can be printed and compared, and its Result."""

import shlex
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from gpu_profile.printable import printable_lines

T = TypeVar("T")
_NO_REASONS = ("--help", "Exiting with failure status due to previous errors")


@dataclass(frozen=True, kw_only=True)
class Command:
    """One program call. `env` is added to the inherited environment.

    `secrets` names the variables of `env` whose values are never shown. `stdin_file` and
    `stdout_file` are for data that does not fit into a string, such as archives. `stdout_file`
    appears only if the program succeeds; with `stdout_partial` also if it fails. `if_missing` is
    the next step where the program is not on this machine, such as "Use a log-in node".
    """

    argv: tuple[str, ...]
    stdin: str = ""
    stdin_file: Path | None = None
    stdout_file: Path | None = None
    stdout_partial: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    if_missing: str = field(default="", compare=False)

    def __str__(self) -> str:
        """Return a line to paste into a shell, with secrets as `***`."""
        assignments = [
            f"{name}={'***' if name in self.secrets else quote_printable(value)}"
            for name, value in sorted(self.env.items())
        ]
        files = ((" < ", self.stdin_file), (" > ", self.stdout_file))
        redirections = (sign + quote_printable(str(path)) for sign, path in files if path)
        return " ".join([*assignments, *map(quote_printable, self.argv)]) + "".join(redirections)


def quote_printable(word: str) -> str:
    """Return a word as a shell reads it, with control characters as `$'\\x1b'` (bash, zsh, ksh)."""
    if printable_lines(word) == word:
        return shlex.quote(word)
    parts = (c if printable_lines(c) == c else _escape_bytes(c) for c in word)
    return "$'" + "".join("\\" + part if part in "\\'" else part for part in parts) + "'"


def _escape_bytes(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True, kw_only=True)
class Result:
    """The exit code and output of a finished command."""

    returncode: int
    stdout: str = ""
    stderr: str = ""

    @property
    def last_line(self) -> str:
        """The last line of stderr or stdout, usually the reason of a failure.

        Advice such as "Run 'docker run --help' for more information" is no reason, and neither is
        tar's last line.
        """
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        filled = [line for line in lines if line.strip()]
        reasons = [line for line in filled if not any(map(line.__contains__, _NO_REASONS))] or lines
        return reasons[-1].strip() if reasons else f"exit code {self.returncode}"


Steps: TypeAlias = Generator[Command, Result, T]
"""A generator that yields Commands, receives their Results and returns a value. Creating one
runs nothing: process.drive does."""


ENGINE = "docker"
"""The program of the container engine's command line."""
_QUESTIONS = {ENGINE: Command(argv=(ENGINE, "version"))}


def find_question(command: Command) -> Command | None:
    """Return what a program's server answers under any load, unless it hangs: `docker version`.

    None for a program without such a server.
    """
    # engine/probe.py asks the engine through sh, where a missing program is no exception.
    words = command.argv[2].split() if command.argv[:2] == ("sh", "-c") else command.argv
    return _QUESTIONS.get(next(iter(words), ""))


def make_command(*argv: str, stdin: str = "", **env: str) -> Command:
    """Return a command of these words; `env` is added to its environment."""
    return Command(argv=argv, stdin=stdin, env=env)


def make_engine_command(*argv: str) -> Command:
    """Return a command of the container engine: `image`, `inspect`, …"""
    return make_command(ENGINE, *argv)
