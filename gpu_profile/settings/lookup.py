"""Find the settings file: a `.env` of another program is neither read nor an error."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpu_profile.errors import SettingsError, did_you_mean
from gpu_profile.settings.envfile import read_entries
from gpu_profile.settings.places import user_settings_file, uses_clone_places
from gpu_profile.settings.template import FIRST_LINE

HERE = Path(".env")


@dataclass(frozen=True)
class SettingsFile:
    """The file to read settings from, if any, and why `./.env` is not it: ".env:1: …" or "".

    `is_misspelt`: a key of `./.env` is one letter away from one of ours, so it may be ours.
    """

    path: Path | None
    note: str = ""
    is_misspelt: bool = False


def find_settings_file(env_file: str, keys: Iterable[str]) -> SettingsFile:
    """Return the file of `--env-file`, else `./.env` if it is ours, else the user's own, else none.

    `keys` are the names of all settings. Raises SettingsError for a named file that is missing.
    """
    if env_file:
        path = Path(env_file).expanduser()
        if not path.is_file():
            raise SettingsError(f"--env-file {env_file}: no such file", "`invoke init` writes one")
        return SettingsFile(path)
    if uses_clone_places():
        return SettingsFile(HERE)
    note = explain_foreign_file(HERE, frozenset(keys)) if HERE.is_file() else ""
    if HERE.is_file() and not note:
        return SettingsFile(HERE)
    user_file = user_settings_file()
    is_misspelt = bool(note) and _find_misspelt(_read_keys(HERE), frozenset(keys)) != ""
    return SettingsFile(user_file if _is_file(user_file) else None, note, is_misspelt)


def _is_file(path: Path) -> bool:
    """Return whether the file is there; it is not in a home that this user may not enter."""
    try:
        return path.is_file()
    except PermissionError:
        return False


def explain_foreign_file(path: Path, keys: frozenset[str]) -> str:
    """Return why this file is not read: ".env is not read: DEBUG is no setting"; "" if it is ours.

    A file that begins as `init` writes it is ours, so that a misspelt key in it is an error.
    """
    if reason := _explain_owner(path):
        return f"{path} is not read: {reason}"
    try:
        with path.open(encoding="utf-8") as file:
            if file.readline().startswith(FIRST_LINE):
                return ""
        others = [e.key for e in read_entries(path) if e.key not in keys]
    except (SettingsError, OSError, UnicodeDecodeError):
        return f"{path} is not read: it holds more than settings of gpu-profile"
    if not others:
        return ""
    foreign = _find_misspelt(others, keys) or others[0]
    guess = did_you_mean(foreign, keys)
    reason = f"{path} is not read: {foreign} is not a setting of gpu-profile"
    return f"{reason}. {guess}" if guess else reason


def _read_keys(path: Path) -> list[str]:
    """Return the keys of a file; none if it cannot be read as settings."""
    try:
        return [entry.key for entry in read_entries(path)]
    except SettingsError:
        return []


def _find_misspelt(names: Iterable[str], keys: frozenset[str]) -> str:
    """Return the first name that is one letter away from a key, such as REPORT_DIRR; or ""."""
    others = (name for name in names if name not in keys)
    return next((name for name in others if any(_differ_by_one(name, key) for key in keys)), "")


def _differ_by_one(name: str, key: str) -> bool:
    """Return whether one letter that is missing, wrong or too many is all that differs."""
    short, long = sorted((name, key), key=len)
    pairs = zip(short, long, strict=False)
    same = next((place for place, (a, b) in enumerate(pairs) if a != b), len(short))
    return long[same + 1 :] in (short[same:], short[same + 1 :])


def _explain_owner(path: Path) -> str:
    """Return the reason if another user than root could change the jobs that are started here.

    Settings such as RUN_OPTS go on command lines, and a directory such as /tmp is everybody's.
    """
    if not hasattr(os, "getuid"):
        return ""
    return "" if path.stat().st_uid in {0, os.getuid()} else "it belongs to another user"
