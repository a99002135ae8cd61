"""The directories of this program: its own files, and what it keeps for the user.

In a clone, `./inv` keeps state in `.gpu-profile`. The installed command keeps it in the directories
of the XDG specification, or what the platform has in their place:
https://specifications.freedesktop.org/basedir-spec/latest/
"""

from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_INSTALLED = _PACKAGE / "_files"
_NAME = "gpu-profile"

ROOT = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent
"""The folder with Container-Root, k8s and tests/image: a clone, or the copy that a wheel holds.

pyproject.toml says what a wheel holds, in `force-include`.
"""


@dataclass
class _Mode:
    clone: bool = False


_MODE = _Mode()


def use_clone_places() -> None:
    """Keep state in `.gpu-profile`, and read `.env` here and no other. The clone's tasks.py calls.

    It is a fact of the process: one command line is either the clone's or not.
    """
    _MODE.clone = True


def uses_clone_places() -> bool:
    return _MODE.clone


def state_folder() -> Path:
    """Return the folder of the records of pushed images: `~/.local/state/gpu-profile`."""
    if _MODE.clone:
        return Path(".gpu-profile")
    import platformdirs  # imported when needed, to keep each start fast

    return platformdirs.user_state_path(_NAME)


def cache_folder() -> Path:
    """Return the folder of what can be made anew: `~/.cache/gpu-profile`."""
    if _MODE.clone:
        return Path(".gpu-profile")
    import platformdirs

    return platformdirs.user_cache_path(_NAME)


def user_settings_file() -> Path:
    """Return the path of the user's own settings: `~/.config/gpu-profile/.env`."""
    import platformdirs

    return platformdirs.user_config_path(_NAME) / ".env"
