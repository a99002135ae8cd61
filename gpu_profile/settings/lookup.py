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
    """The file to read settings from, if any, and why `./.env` is not it: ".env:1: …" or ""."""

    path: Path | None
    note: str = ""


def find_settings_file(named: str, keys: Iterable[str]) -> SettingsFile:
    """Return the file of `--env-file`, else `./.env` if it is ours, else the user's own, else none.

    `keys` are the names of all settings. Raises SettingsError for a named file that is missing.
    """
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise SettingsError(f"--env-file {named}: no such file", "`invoke init` writes one")
        return SettingsFile(path)
    if uses_clone_places():
        return SettingsFile(HERE)
    note = explain_foreign_file(HERE, frozenset(keys)) if HERE.is_file() else ""
    if HERE.is_file() and not note:
        return SettingsFile(HERE)
    own = user_settings_file()
    return SettingsFile(own if own.is_file() else None, note)


def explain_foreign_file(path: Path, keys: frozenset[str]) -> str:
    """Return why this file is not read: ".env is not read: DEBUG is no setting"; "" if it is ours.

    A file that begins as `init` writes it is ours, so that a misspelt key in it is an error.
    """
    if reason := _owned_by_other(path):
        return f"{path} is not read: {reason}"
    try:
        with path.open(encoding="utf-8") as file:
            if file.readline().startswith(FIRST_LINE):
                return ""
        foreign = next((e.key for e in read_entries(path) if e.key not in keys), "")
    except (SettingsError, OSError, UnicodeDecodeError):
        return f"{path} is not read: it holds more than settings of gpu-profile"
    if not foreign:
        return ""
    guess = did_you_mean(foreign, keys)
    reason = f"{path} is not read: {foreign} is no setting of gpu-profile"
    return f"{reason}. {guess}" if guess else reason


def _owned_by_other(path: Path) -> str:
    """Return the reason if another user than root could change the jobs that are started here.

    Settings such as RUN_OPTS go on command lines, and a directory such as /tmp is everybody's.
    """
    if not hasattr(os, "getuid"):
        return ""
    return "" if path.stat().st_uid in {0, os.getuid()} else "it belongs to another user"
