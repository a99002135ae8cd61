"""Write a .env file anew: our order and comments, the user's values, comments and unknown lines."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.files import read_text, write_atomically
from gpu_profile.settings.envfile import list_bindings, parse_entries
from gpu_profile.settings.template import (
    FIRST_LINE,
    HEAD,
    format_setting,
    format_title,
    list_groups,
    quote_value,
    render_template,
)

_LIMIT = 1 << 20
_ALIKE = 0.6
"""What two wordings of one comment share: the limit of difflib.get_close_matches."""
_BLANK_LINES = re.compile(r"\A(?:[ \t]*\r?\n)+")
_LINE = re.compile(
    r"""(?P<key>\s*[\w.]+[ \t]*=[ \t]*)"""
    r"""(?P<value>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|.*?)"""
    r"""(?P<comment>[ \t]*(?:[ \t]#.*)?\s*)"""
)


@dataclass(frozen=True)
class FileUpdate:
    """The new text, the names of settings that were added or changed, and of unknown ones.

    `is_renewed`: whether lines of the old text have another place or comment.
    """

    text: str
    added_keys: tuple[str, ...] = ()
    changed_keys: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    is_renewed: bool = False


def update_file(path: Path, values: Mapping[str, str]) -> FileUpdate:
    """Write every setting to the file in our order, with its value there or one of these.

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
        # A file that its owner closed to others (0600) stays closed.
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        write_atomically(path, update.text, mode=mode)
    return update


@dataclass
class _Pieces:
    """The lines of a file: the head, known settings with the comments above them, and others.

    `is_shipped`: whether we wrote the file first, so that an older wording in it is ours.
    """

    is_shipped: bool
    head: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    comments: dict[str, list[str]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def update_text(text: str, values: Mapping[str, str], path: Path = Path(".env")) -> FileUpdate:
    """Return the text with every setting in the order of the shipped file, each under our comment.

    The user's values, comments and unknown settings are kept: a comment stays above its setting,
    unknown settings come last. Raises SettingsError for lines that are no settings.
    """
    entries = {entry.key: entry.value for entry in parse_entries(path, text)}
    keys = [key.name for _, keys in list_groups() for key in keys]
    changed = tuple(name for name, value in values.items() if entries.get(name, value) != value)
    pieces = _split_text(text, keys)
    for name in changed:
        pieces.settings[name] = _replace_value(pieces.settings[name], values[name])
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = list(_join_pieces(pieces, values))
    return FileUpdate(
        newline.join([*lines, ""]),
        added_keys=tuple(name for name in keys if name not in entries),
        changed_keys=changed,
        unknown=tuple(name for name in entries if name not in keys),
        is_renewed=not _keeps_lines(text, lines, changed),
    )


def _split_text(text: str, keys: Sequence[str]) -> _Pieces:
    """Return the pieces. A comment above a blank line at the top of the file is of its head."""
    pieces = _Pieces(is_shipped=text.startswith(FIRST_LINE))
    comments: list[str] = []
    for binding in list_bindings(text):
        blank = _BLANK_LINES.match(binding.original.string)
        if blank and not pieces.settings and not pieces.head:
            pieces.head, comments = comments, []
        line = binding.original.string[blank.end() if blank else 0 :].rstrip("\r\n")
        if binding.key in keys:
            pieces.settings[str(binding.key)] = line
            pieces.comments[str(binding.key)] = comments
            comments = []
        elif binding.key is not None:
            pieces.others += [*comments, line]
            comments = []
        elif line.strip() and not line.startswith(FIRST_LINE) and not _is_title(line):
            comments.append(line)
    pieces.others += comments
    return pieces


def _is_title(line: str) -> bool:
    """Return whether a comment is the title of a section of ours, now or in an older version."""
    titles = [format_title(title) for title, _ in list_groups()]
    return bool(line.startswith("# --- ") and difflib.get_close_matches(line, titles, 1, _ALIKE))


def _join_pieces(pieces: _Pieces, values: Mapping[str, str]) -> Iterator[str]:
    yield HEAD
    yield from pieces.head
    for title, keys in list_groups():
        yield ""
        yield format_title(title)
        for key in keys:
            comment, setting = format_setting(key, values.get(key.name))
            comments = pieces.comments.get(key.name, [])
            yield from _renew_comment(comments, comment, is_shipped=pieces.is_shipped)
            yield pieces.settings.get(key.name, setting)
    if pieces.others:
        yield ""
        yield from pieces.others


def _renew_comment(comments: list[str], ours: str, *, is_shipped: bool) -> list[str]:
    """Return the comments above a setting with ours among them, in the place of an older one.

    Ours with more words after it is the user's, and stays.
    """
    if any(line.startswith(ours) for line in comments):
        return comments
    old = difflib.get_close_matches(ours, comments, 1, _ALIKE) if is_shipped else []
    if not old:
        return [ours, *comments]
    return [ours if line == old[0] else line for line in comments]


def _replace_value(line: str, value: str) -> str:
    """Return the line of a setting with a new value; the comment after the value stays."""
    match = _LINE.fullmatch(line)
    return match["key"] + quote_value(value) + match["comment"] if match else line


def _keeps_lines(text: str, lines: Sequence[str], changed: Sequence[str]) -> bool:
    """Return whether the text's lines are in `lines`, in their order, but for changed settings."""
    new = iter(lines)
    old = (line for line in text.splitlines() if line.strip())
    names = tuple(changed)
    return all(line in new for line in old if line.partition("=")[0].strip() not in names)
