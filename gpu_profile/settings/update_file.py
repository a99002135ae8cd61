"""Update a .env file in place: new settings are added, what is in it stays as it is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_profile.declared.key import Key
from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.files import read_text, write_atomically
from gpu_profile.settings.envfile import list_bindings, parse_entries
from gpu_profile.settings.template import format_setting, list_groups, quote_value, render_template

_LIMIT = 1 << 20
_SECTION = re.compile(r"^# --- (.*?)\s*$", re.MULTILINE)
_LINE = re.compile(
    r"""(?P<key>\s*[\w.]+[ \t]*=[ \t]*)"""
    r"""(?P<value>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|.*?)"""
    r"""(?P<comment>[ \t]*(?:[ \t]#.*)?\s*)"""
)


@dataclass(frozen=True)
class FileUpdate:
    """The new text, the names of settings that were added or changed, and of unknown ones."""

    text: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def update_file(path: Path, values: Mapping[str, str]) -> FileUpdate:
    """Add each missing setting to the file with its default, and set these values.

    Writes the shipped file if there is none. Raises SettingsError, and leaves the file as it is,
    if it is no plain settings file.
    """
    try:
        text = read_text(path, _LIMIT)
    except FileNotFoundError:
        text = ""
    except (ReportError, OSError) as error:
        raise SettingsError(f"{path} cannot be updated: {error}", "Name another one") from error
    update = update_text(text or render_template(), values, path)
    if update.text != text:
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        write_atomically(path, update.text, mode=mode)
    return update


def update_text(text: str, values: Mapping[str, str], path: Path = Path(".env")) -> FileUpdate:
    """Return the text with every setting. Comments, order, values and unknown keys are kept.

    A new setting comes behind its neighbour in its section ("# --- Launcher slurm"); a new section
    comes last in the file. Raises SettingsError for lines that are no settings.
    """
    entries = {entry.key: entry.value for entry in parse_entries(path, text)}
    keys = {key.name: (title, key) for title, keys in list_groups() for key in keys}
    changed = [name for name, value in values.items() if entries.get(name, value) != value]
    text = _replace_values(text, {name: values[name] for name in changed})
    added = [name for name in keys if name not in entries]
    for name in added:
        title, key = keys[name]
        text = _insert_setting(text, title, key, values.get(name))
    unknown = tuple(name for name in entries if name not in keys)
    return FileUpdate(text, tuple(added), tuple(changed), unknown)


def _replace_values(text: str, values: Mapping[str, str]) -> str:
    """Return the text with new values; the comment behind a value stays."""
    lines = []
    for binding in list_bindings(text):
        line = binding.original.string
        match = _LINE.fullmatch(line) if binding.key in values else None
        if match:
            line = match["key"] + quote_value(values[str(binding.key)]) + match["comment"]
        lines.append(line)
    return "".join(lines)


def _insert_setting(text: str, title: str, key: Key, value: str | None) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    setting = newline.join([*format_setting(key, value), ""])
    text = text if not text or text.endswith("\n") else text + newline
    head = next((match for match in _SECTION.finditer(text) if match[1] == title), None)
    if head is None:
        return f"{text}{newline}# --- {title}{newline}{setting}"
    place = _find_place(text, title, key) or text.index("\n", head.start()) + 1
    return f"{text[:place]}{setting}{text[place:]}"


def _find_place(text: str, title: str, key: Key) -> int:
    """Return where the settings that stand before this one in its section end; 0 without any."""
    keys = dict(list_groups())[title]
    before = {other.name for other in keys[: keys.index(key)]}
    place = end = 0
    for binding in list_bindings(text):
        end += len(binding.original.string)
        place = end if binding.key in before else place
    return place
