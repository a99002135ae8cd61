"""Where the records of images are, and the files of --output."""

import os
from pathlib import Path

from gpu_profile.errors import SettingsError
from gpu_profile.files import find_existing
from gpu_profile.settings.places import state_folder


def records_file() -> Path:
    """Return the file of the digests that `invoke push` recorded, by tag."""
    return state_folder() / "images.json"


def output_file(path_text: str, name: str) -> Path | None:
    """Return --output as a file path; None without the flag. A folder gets the file `name`.

    Raises SettingsError if it cannot be written, before minutes of work.
    """
    if not path_text:
        return None
    path = Path(path_text)
    if path.is_dir() or path_text.endswith("/"):
        path /= name
    make_folder(path.parent)
    return path


def check_folder(folder: Path) -> None:
    """Raise SettingsError if the folder cannot be made or written. Makes nothing."""
    existing = find_existing(folder)
    if not existing.is_dir():
        raise SettingsError(f"--output {folder}: {existing} is a file", "Name another place")
    if not os.access(existing, os.W_OK):
        raise SettingsError(f"--output {folder}: no right to write there", "Name another place")


def make_folder(folder: Path) -> None:
    """Make a folder. Raises SettingsError if it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--output {folder}: {error.strerror}", "Name another place") from error
    if not os.access(folder, os.W_OK):
        raise SettingsError(f"--output {folder}: no right to write there", "Name another place")
