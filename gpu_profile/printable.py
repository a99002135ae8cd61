"""Text from reports, jobs and files as it may be shown on a terminal, in a log, or in XML."""

import re

# All but letters, marks, numbers, punctuation, symbols and the space: what str.isprintable()
# refuses. ESC, BEL and CR are of these, and C1 controls (\x9b begins a sequence as ESC [ does).
_KEPT = "\n\t"


def printable(text: str, keep: str = "") -> str:
    r"""The text with every other character as Python writes it: ESC is `\x1b`.

    `keep`: characters to leave as they are, such as the line break between lines.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def printable_lines(text: str) -> str:
    """The same for several lines: line breaks and tabs stay."""
    return printable(text, _KEPT)


def printable_json(text: str) -> str:
    r"""A JSON document with such characters as `\u001b`, which means the same to its readers."""
    if text.replace("\n", "").isprintable():
        return text
    return re.sub(r"[^\n]", lambda match: _json_escape(match[0]), text)


def _json_escape(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
