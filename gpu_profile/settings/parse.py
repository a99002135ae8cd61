"""Parse the text of a setting. An error says where the text came from."""

import shlex
from typing import Any

from gpu_profile.declared.key import Key
from gpu_profile.declared.kinds import fault
from gpu_profile.errors import SettingsError

_NEVER_EMPTY = {"address", "count", "image", "name", "path", "seconds", "tag"}
_TRUE, _FALSE = {"true", "1", "yes", "on"}, {"false", "0", "no", "off"}


def parse_value(key: Key, text: str, source: str) -> Any:  # noqa: ANN401 - a key's own type
    """Return the value. Raises SettingsError."""
    where = f"{source}: {key.name} is {text!r}"
    if key.kind == "bool":
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise SettingsError(where, "Use true or false")
    if key.choices and text not in key.choices:
        raise SettingsError(where, f"Use one of {', '.join(key.choices)}")
    if "\n" in text or "\0" in text:
        raise SettingsError(f"{source}: {key.name} holds a line break", "Write it on one line")
    if key.kind == "words":
        _check_words(where, text)
    if hint := _explain_fault(key, text):
        raise SettingsError(where, hint)
    return text


def parse_count(name: str, text: str) -> int:
    """Return the number of a flag or setting. Raises SettingsError unless it is 0, 1, 2, …"""
    if not text.isdecimal():
        raise SettingsError(f"{name} {text!r} is not a number", "Use 0, 1, 2, …")
    return int(text)


def _explain_fault(key: Key, text: str) -> str:
    """Return what to write instead, or "".

    Most empty texts are valid: the tool has its own default.
    """
    if not text and (key.default == "" or key.kind not in _NEVER_EMPTY):
        return ""
    return fault(key.kind, text)


def _check_words(where: str, text: str) -> None:
    try:
        shlex.split(text)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}", "Close the quote") from error
