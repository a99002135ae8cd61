"""Turn Invoke's messages about a wrong command line into errors with a hint and exit code 2.

Invoke prints `No idea what 'x' is!` and exits with 1.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from pathlib import Path

from gpu_profile.cli.program import CLONE_ONLY
from gpu_profile.cli.table import VERBS
from gpu_profile.errors import SettingsError, did_you_mean
from gpu_profile.printable import is_console, program_name

_UNKNOWN = re.compile(r"No idea what '(.*)' is!", re.DOTALL)
_NO_VALUE = re.compile(r"Flag <Argument: ([\w-]+).* needed value")
_NO_WORD = re.compile(r".* did not receive required positional arguments: '(\w+)'")


def unknown_verb(word: str, before: str = "") -> SettingsError:
    """Return the error for an unknown verb.

    `before` is the verb that stands before the word; the word may belong after `--`.
    """
    if is_console() and word in CLONE_ONLY:
        return SettingsError(f"{word} is a verb of the repository", f"Use ./inv {word} in a clone")
    if before and (error := _explain_place(word, before)):
        return error
    guess = did_you_mean(word, (verb.name for verb in VERBS))
    runs = any(verb.name == before and verb.takes_command for verb in VERBS)
    place = f". What {before} is to run goes after --" if runs and not guess else ""
    return SettingsError(f"there is no verb {word!r}", f"{guess} `invoke --list` has all{place}")


def _explain_place(word: str, before: str) -> SettingsError | None:
    """Return the error for a path after a verb that reads reports; None for other words."""
    flags = {option.name for verb in VERBS if verb.name == before for option in verb.options}
    if "report" not in flags or not ("/" in word or Path(word).exists()):
        return None
    return SettingsError(f"{before} takes no {word!r}", f"Use `invoke {before} --report {word}`")


def make_usage_error(message: str, verb: str, flags: Iterable[str]) -> SettingsError:
    """Return the error for a message of Invoke.

    `flags` are those of `verb`, or of Invoke itself if `verb` is empty.
    """
    command = f"`invoke {verb} --help`" if verb else "`invoke --help`"
    if missing := _NO_VALUE.match(message):
        return SettingsError(f"--{missing[1]} wants a value", f"{command} says which")
    if missing := _NO_WORD.match(message):
        return SettingsError(f"{verb} wants {missing[1].upper()}", f"{command} says which")
    unknown = _UNKNOWN.fullmatch(message)
    if not unknown:
        return SettingsError(message.rstrip("!"), f"{command} has its flags")
    word = unknown[1]
    if not word.startswith("-"):
        return unknown_verb(word, verb)
    return SettingsError(
        f"{verb or program_name()} has no {word}",
        f"{_guess_flag(word, flags)} {command} has its flags",
    )


def _guess_flag(word: str, flags: Iterable[str]) -> str:
    """Return "Did you mean --steps?" or "". The dashes are alike in all, and so say nothing."""
    names = [flag.removeprefix("--") for flag in flags if flag.startswith("--")]
    guess = did_you_mean(word.lstrip("-"), names)
    return guess.replace("Did you mean ", "Did you mean --")


def no_number(message: str, argv: Sequence[str]) -> SettingsError:
    """Return the error for a numeric flag with other text.

    Python's message ends with the text; the numeric flag before that text is named.
    """
    value = message.rpartition(": ")[2].strip("'")
    words = list(chain.from_iterable(word.split("=", 1) for word in argv))
    numeric = {
        f"--{option.name}": "Use 0, 1, 2, …" if type(option.default) is int else "Use 0, 2.5, …"
        for verb in VERBS
        for option in verb.options
        if type(option.default) in (int, float)
    }
    flags = (flag for flag, next_word in pairwise(words) if next_word == value and flag in numeric)
    flag = next(flags, "a flag's")
    return SettingsError(f"{flag} {value!r} is not a number", numeric.get(flag, "Use 0, 1, 2, …"))
