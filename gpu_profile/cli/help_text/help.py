"""The help of the program, with verbs by subject, and of a verb, with flags in groups."""

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from gpu_profile.cli.table import SUBJECTS
from gpu_profile.cli.verb import Option, Verb
from gpu_profile.printable import name_program, program_name

_WIDEST, _NARROW = 100, 60
"""Lines of more columns are hard to read; with fewer, a text stands below its name."""
_CHOICES = 24  # letters: longer choices stand in the flag's text
_VALUES = {
    "path": "FILE",
    "count": "N",
    "number": "N",
    "percent": "PERCENT",
    "run-name": "NAME",
    "scheduler": "ADDRESS",
}
"""What stands for the value of a flag of this kind. Otherwise its name's last word does."""
_Row = tuple[str, str]


def render_program_help(verbs: Sequence[Verb]) -> str:
    """Return the help of the program: how to begin, and the verbs by subject."""
    program, width = program_name(), _measure_width()
    begin = (
        (f"{program} quickstart", "set up, build, profile a sample and read it"),
        (f"{program} profile --mount . -- python3 train.py", "profile your own program"),
        (f"{program} diagnose --report FILE", "read a report that you have"),
    )
    usage = f"Usage: {program} VERB [flags] [-- COMMAND]"
    blocks = [usage, _render_block("Begin with", begin, width)]
    for folder, title in SUBJECTS.items():
        rows = [(verb.name, verb.doc) for verb in verbs if verb.module.startswith(f"{folder}.")]
        blocks.append(_render_block(title, rows, width))
    more = (
        (f"{program} VERB --help", "the flags of a verb, with an example"),
        ("--list", "all verbs, by name"),
        ("--version", "the version"),
        ("--print-completion-script bash", "completion, for bash, fish or zsh"),
    )
    return "\n\n".join((*blocks, _render_block("More", more, width))) + "\n"


def render_verb_help(verb: Verb) -> str:
    """Return the help of a verb: its words, an example, and its flags in groups."""
    width, options = _measure_width(), verb.options
    words = "".join(f" {_name_value(option)}" for option in options if option.positional)
    command = " -- COMMAND" if verb.takes_command else ""
    head = (
        f"Usage: {program_name()} {verb.name} [flags]{words}{command}",
        "\n".join(_wrap(verb.doc, width)),
        f"Example: {program_name()} {verb.example or verb.name}",
    )
    groups: dict[str, list[_Row]] = {}
    for option in options:
        groups.setdefault(option.group, []).append((_format_flag(option), _describe(option)))
    of_verb = groups.pop("", [])
    # Those of the settings, which every verb has, come first in a dataclass and last here.
    titled = [("Flags", of_verb), *reversed(groups.items())]
    blocks = [_render_block(title, rows, width) for title, rows in titled if rows]
    return "\n\n".join((*head, *blocks)) + "\n"


def _describe(option: Option) -> str:
    """Return the flag's text with its default, where that is a value and the text has none."""
    if not option.default or isinstance(option.default, bool):
        return name_program(option.doc)
    default = "" if "default: " in option.doc else f"; default: {option.default}"
    return name_program(option.doc) + default.removesuffix(".0")


def _measure_width() -> int:
    return min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)


def _format_flag(option: Option) -> str:
    value = _name_value(option)
    if option.positional:
        return value
    return f"--{option.name} {value}" if value else f"--{option.name}"


def _name_value(option: Option) -> str:
    """Return what stands for a flag's value: `N`, `text|csv|json`, `END` of --capture-range-end."""
    if isinstance(option.default, bool):
        return ""
    choices = "|".join(option.choices)
    if option.value or (choices and len(choices) <= _CHOICES):
        return option.value or choices
    if isinstance(option.default, (int, float)):
        return "N"
    return _VALUES.get(option.kind, option.name.rpartition("-")[2].upper())


def _render_block(title: str, rows: Iterable[_Row], width: int) -> str:
    """Return rows of a name and a text below a title, the text beside the name if there is room."""
    rows = list(rows)
    longest = max((len(name) for name, _ in rows), default=0)
    column = min(longest, width // 3) + 4
    lines = _render_below(rows, width) if width < _NARROW else _render_beside(rows, column, width)
    return "\n".join((f"{title}:", *lines))


def _render_below(rows: Iterable[_Row], width: int) -> Iterator[str]:
    for name, text in rows:
        yield f"  {name}"
        yield from _wrap(text, width, " " * 6)


def _render_beside(rows: Iterable[_Row], column: int, width: int) -> Iterator[str]:
    indent = " " * column
    for name, text in rows:
        lines = _wrap(text, width, indent)
        if len(name) + 4 > column:
            yield f"  {name}"
        else:
            lines[0] = f"  {name}".ljust(column) + lines[0].lstrip()
        yield from lines


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Return the text in lines. A file's or a flag's name is not cut at a hyphen."""
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
