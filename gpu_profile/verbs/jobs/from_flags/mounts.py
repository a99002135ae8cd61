"""The mounts of --mount: a directory under its own path, or SOURCE:/TARGET[:ro]."""

from collections.abc import Sequence
from pathlib import Path

from gpu_profile.errors import SettingsError
from gpu_profile.job import REPORTS_INSIDE, Mount
from gpu_profile.launcher import ImageFrom, Launcher

_OF_THE_IMAGE = frozenset(
    Path("/", name)
    for name in ("bin", "boot", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sbin", "sys")
) | {Path("/usr"), Path("/var"), Path(REPORTS_INSIDE)}
"""Directories that a container needs as its image has them."""


def parse_mount(text: str) -> Mount:
    """Return the mount of `DIR`, such as `.`, or of `SOURCE:/TARGET[:ro]`. Raises SettingsError."""
    source, colon, target_and_mode = text.partition(":")
    if not colon:
        folder = _resolve_own(text)
        return Mount(source=folder, target=str(folder))
    target, _, mode = target_and_mode.partition(":")
    if not source or not target.startswith("/") or mode not in ("", "ro", "rw"):
        raise SettingsError(f"--mount {text!r} is not a mount", "Use SOURCE:/TARGET[:ro], or .")
    return Mount(source=Path(source).absolute(), target=target, read_only=mode == "ro")


def _resolve_own(text: str) -> Path:
    """Return the absolute path of a directory that a job may have as it is.

    Links are resolved: what is refused, and what the container gets, are the directory itself. The
    home directory holds keys, and whoever holds the home directory holds them too.
    """
    folder = Path(text).expanduser().resolve()
    if not folder.is_dir():
        raise SettingsError(f"--mount {text!r}: there is no such directory", "Use . or a path")
    if Path.home().resolve().is_relative_to(folder):
        what = f"--mount {text!r}: {folder} is the home directory or holds it"
        raise SettingsError(what, "Change to the directory of the program, or name that one")
    if folder in _OF_THE_IMAGE:
        raise SettingsError(f"--mount {text!r}: {folder} is the image's own", "Name one below it")
    return folder


def find_workdir(texts: Sequence[str], launcher: Launcher) -> str:
    """Return where a job with these --mount works: the first directory under its own path, or "".

    Raises SettingsError if the job's machine is another one.
    """
    folder = next((text for text in texts if ":" not in text), "")
    if folder and launcher.images is not ImageFrom.ENGINE:
        hint = "Use --workdir, or a launcher that has --sync"
        raise SettingsError(f"--mount {folder}: {launcher.name} has no container here", hint)
    return parse_mount(folder).target if folder else ""
