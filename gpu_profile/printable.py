"""Escape control characters in text of reports, jobs and files, for terminals, logs and XML."""

import re
import sys
from dataclasses import dataclass

PROGRAM = "gpu-profile"
"""The console command that a wheel installs; a clone has `invoke`."""
# Every character that str.isprintable() refuses: ESC, BEL, CR, and C1 controls (\x9b begins an
# escape sequence like ESC [).
_KEPT = "\n\t"
_ESCAPE_SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]")


def printable(text: str, keep: str = "") -> str:
    r"""Return the text with each control character as Python writes it: ESC becomes `\x1b`.

    `keep`: characters that stay, such as the line break between lines.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape_character(c) for c in text)


def printable_lines(text: str) -> str:
    """Return several lines with control characters escaped. Line breaks and tabs stay."""
    return printable(text, _KEPT)


def remove_controls(text: str) -> str:
    """Return one line without escape sequences (ECMA-48 CSI: colours) and control characters.

    A job prints them to colour its lines, and a killed one may leave NULs.
    """
    text = _ESCAPE_SEQUENCE.sub("", text)
    return "".join(c for c in text.replace("\t", " ") if c.isprintable())


def printable_json(text: str) -> str:
    r"""Return a JSON document with control characters as `\u001b`, which JSON readers decode."""
    if text.replace("\n", "").isprintable():
        return text
    return re.sub(r"[^\n]", lambda match: _escape_json(match[0]), text)


def _escape_json(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _escape_character(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def is_console() -> bool:
    """Return whether the user has typed `gpu-profile`, and not `invoke`."""
    return re.split(r"[/\\\\]", sys.argv[0])[-1].removesuffix(".exe") == PROGRAM


@dataclass
class _Clone:
    """How the user starts the verbs of a clone."""

    program: str = "invoke"


_CLONE = _Clone()


def use_script() -> None:
    """Name ./inv in messages. It has started this process, and there may be no `invoke`."""
    _CLONE.program = "./inv"


def program_name() -> str:
    """Return what the user has typed: gpu-profile, ./inv or invoke."""
    return PROGRAM if is_console() else _CLONE.program


def name_program(text: str) -> str:
    """Return a message whose commands begin with what the user has typed.

    `invoke build` becomes `gpu-profile build` for the console command, and `./inv build` for the
    clone's script. sudo has a PATH of its own, without the user's programs: `sudo ./inv` becomes
    `sudo $(command -v gpu-profile)`. Only for our own messages: text of jobs and reports stays as
    it is.
    """
    if is_console():
        text = text.replace("sudo ./inv", f"sudo $(command -v {PROGRAM})")
    return re.sub(r"\binvoke (?=[a-z]|-)", f"{program_name()} ", text)
