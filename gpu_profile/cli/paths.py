"""Where the project lies, and the files that verbs write."""

import os
from pathlib import Path

from gpu_profile.cli.table import Options
from gpu_profile.errors import SettingsError

ROOT = Path(__file__).resolve().parents[2]
RECORDS = Path(".gpu-profile") / "images.json"
"""The digests that push was told, by tag."""


def output_file(options: Options, name: str) -> Path | None:
    """--output as a file that can be written, in a folder under `name`; None without the flag.

    Raises SettingsError where it cannot, before minutes are spent on what it is to hold.
    """
    path_text = str(options["output"])
    if not path_text:
        return None
    path = (
        Path(path_text, name)
        if Path(path_text).is_dir() or path_text.endswith("/")
        else Path(path_text)
    )
    make_folder(path.parent)
    return path


def make_folder(folder: Path) -> None:
    """Raises SettingsError where nothing can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"--output {folder}: {error.strerror}", "Name another place") from error
    if not os.access(folder, os.W_OK):
        raise SettingsError(f"--output {folder}: no right to write there", "Name another place")
