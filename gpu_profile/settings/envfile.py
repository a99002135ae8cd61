"""Read a .env file as data: KEY=value lines. Nothing in it is executed.

An error names the file and the line.
"""

import io
import re
from dataclasses import dataclass
from pathlib import Path

from dotenv.parser import Binding, parse_stream

from gpu_profile.errors import SettingsError

_SHELL = re.compile(r"\$\(|`|\$\{|\$[A-Za-z_]")
_SHELL_WORDS = {"if", "then", "else", "elif", "fi", "for", "do", "done", "case", "esac", "source"}


@dataclass(frozen=True)
class Entry:
    """A line `KEY=value` of a .env file, with its number."""

    key: str
    value: str
    line: int


def read_entries(path: Path) -> tuple[Entry, ...]:
    """Return the file's settings in order; none if there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    return parse_entries(path, text)


def parse_entries(path: Path, text: str) -> tuple[Entry, ...]:
    """Return the settings in the text of the file `path`, in order."""
    return _without_duplicates(
        path, [_parse_entry(path, b) for b in list_bindings(text) if _says_something(b)]
    )


def list_bindings(text: str) -> list[Binding]:
    """Return the pieces of a .env file; their `original.string` join to the text."""
    return list(parse_stream(io.StringIO(text)))


def _says_something(binding: Binding) -> bool:
    text = binding.original.string.strip()
    return bool(text) and (binding.key is not None or not text.startswith("#"))


def _get_line(binding: Binding) -> int:
    """Return the line of a setting. The parser counts from the blank lines before it."""
    string = binding.original.string
    return binding.original.line + string[: len(string) - len(string.lstrip())].count("\n")


def _parse_entry(path: Path, binding: Binding) -> Entry:
    where = f"{path}:{_get_line(binding)}"
    text = binding.original.string.strip()
    first = text.splitlines()[0]
    if first.startswith(("export ", "export\t")):
        raise SettingsError(
            f"{where}: {first!r} is shell code", "Settings are data: leave out 'export'"
        )
    if first.split()[0].rstrip(";") in _SHELL_WORDS or first.startswith((". ", "[")):
        raise SettingsError(
            f"{where}: {first!r} is shell code",
            "Settings are data: write KEY=value lines only, each with its final value",
        )
    if binding.error or not binding.key or binding.value is None:
        raise SettingsError(
            f"{where}: expected KEY=value, found {first!r}", "Quote values that hold quotes"
        )
    _refuse_expansion(where, binding.key, text)
    return Entry(binding.key, binding.value, _get_line(binding))


def _refuse_expansion(where: str, key: str, text: str) -> None:
    raw = text.partition("=")[2].lstrip()
    # Single quotes keep a `$` as it is, as in a shell.
    match = None if raw.startswith("'") else _SHELL.search(raw)
    if match:
        raise SettingsError(
            f"{where}: {key} uses the shell ({match[0]!r})",
            "Settings are data: write the value itself, or put it in single quotes to keep the $",
        )


def _without_duplicates(path: Path, entries: list[Entry]) -> tuple[Entry, ...]:
    seen: dict[str, int] = {}
    for entry in entries:
        if entry.key in seen:
            raise SettingsError(
                f"{path}:{entry.line}: {entry.key} was set before, on line {seen[entry.key]}",
                "Keep one of them",
            )
        seen[entry.key] = entry.line
    return tuple(entries)
