"""Check the owner of a run directory. Records of other users' runs are not trusted."""

import functools
import os
import stat
from pathlib import Path

from gpu_profile.progress import Progress

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_own(directory: Path, record: Path) -> bool:
    """Return whether this user owns the directory, the link to it if any, and its record."""
    if not hasattr(os, "getuid"):  # Windows: directories inherit the access rights of their parent
        return True
    user = os.getuid()
    try:
        owners = {directory.lstat().st_uid, directory.stat().st_uid, record.lstat().st_uid}
    except OSError:
        return False
    return owners == {user}


def owner_name(path: Path) -> str:
    """Return the owner's name or number: `root`, `1000`."""
    try:
        return path.owner()
    except (KeyError, OSError, NotImplementedError):
        return str(path.lstat().st_uid)


def describe_foreign(directory: Path, record: Path) -> str:
    """Return whose run it is that is not this user's: `a run of root`.

    In this user's directory run.json alone may be another's: `a run with nobody's run.json`.
    """
    if is_own(directory, directory):
        return f"a run with {owner_name(record)}'s {record.name}"
    return f"a run of {owner_name(directory)}"


def is_writable(directory: Path) -> bool:
    """Return whether this user owns the directory and may write to it."""
    is_owner = not hasattr(os, "getuid") or directory.stat().st_uid == os.getuid()
    return is_owner and os.access(directory, os.W_OK)


@functools.cache
def warn_if_shared(directory: Path, record: Path) -> None:
    """Print a note if other users can write to this user's directory.

    Older versions made directories with the umask's mode.
    """
    if not hasattr(os, "getuid"):
        return
    modes = directory.stat().st_mode | record.lstat().st_mode
    if modes & _OTHERS_WRITE:
        Progress().say(f"note: others may write to {directory}: `chmod -R go= {directory}`")
