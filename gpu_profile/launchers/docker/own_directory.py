"""The user's own directory in a container: under its own path, with the user's own uid."""

import getpass
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpu_profile.command import ENGINE, Result, Steps, make_command
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine.container import mount_option
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.job import Job

_MPIRUN = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})
LIST_ABSENT = r"""for path; do
  case $path in /*) ;; *) [ "$PWD" != / ] || { printf '%s\n' "$path"; continue; } ;; esac
  [ -e "$path" ] || printf '%s\n' "$path"
done"""
"""A shell script that prints which of its arguments the container does not have.

A relative path in a container that works in `/` is absent: `train.py` would be our sample there.
"""


def with_umask(job: Job, umask: int) -> Job:
    """Return a job in the user's directory whose program has the user's umask.

    profile.py gives the program its own umask, which is 0022 in a container, whatever the user has.
    An older image's profile.py leaves it nsys' umask 0, with which all users could change what the
    program makes. An mpirun stays as it is: profile.py looks after a command of that name.
    """
    if not job.workdir or Path(job.command[0]).name in _MPIRUN:
        return job
    shell = ("sh", "-c", f'umask {umask:04o} && exec "$@"', "sh")
    return replace(job, command=(*shell, *job.command))


def list_user_options(job: Job, owner: str, rootless: bool) -> tuple[str, ...]:
    """Return the `docker run` options of a job that works in the user's directory.

    `owner` is `1000:1000`, or empty for root. In a rootless engine the container's root is this
    user. HOME is writable, because Triton and others keep caches there, and such a uid has no home
    in the image; USER names it where the image has no entry for the uid.
    """
    if not job.workdir:
        return ()
    words = (f"--workdir={job.workdir}",)
    if not owner or rootless:
        return words
    return (*words, f"--user={owner}", "--env=HOME=/tmp", f"--env=USER={getpass.getuser()}")


def refuse_privileges(job: Job, owner: str) -> None:
    """Raise ToolError for options that need root in a job that runs as another user."""
    if job.workdir and owner:
        what = "these options of nsys need root in the container, and --mount DIR runs as you"
        raise ToolError(what, f"Use --mount {job.workdir}:/code, or leave the options out")


def find_local_paths(job: Job) -> tuple[str, ...]:
    """Return the words of the command that name a file or folder of this machine.

    `--config=a/b.yaml` counts by its value. Words without `/` and `.` do not count: `train` may be
    the name of a mode. Nothing counts that a mount shows under the same path.
    """
    shown = [mount.source for mount in job.mounts if mount.target == str(mount.source)]
    words = (word.partition("=")[2] if word.startswith("-") else word for word in job.command)
    return tuple(
        word
        for word in words
        if _is_here(word)
        and not (job.workdir and not word.startswith("/"))
        and not any(Path(word).absolute().is_relative_to(folder) for folder in shown)
    )


def _is_here(word: str) -> bool:
    if not {"/", "."} & set(word) or word in {".", ".."} or "\0" in word:
        return False
    try:
        return Path(word).exists()
    except OSError:  # such as a name that is too long
        return False


def refuse_absent(result: Result, names: Sequence[str]) -> None:
    """Raise SettingsError if the container lacks one of `names`, by what LIST_ABSENT printed."""
    absent = next(_list_absent(result, names), None)
    if absent is None:
        return
    path = Path(absent)
    inside = not path.is_absolute() or path.is_relative_to(Path.cwd())
    folder = "." if inside else str(path if path.is_dir() else path.parent)
    what = f"{absent} is here and not in the container"
    raise SettingsError(what, f"Use --mount {folder} to show it that directory")


def _list_absent(result: Result, names: Sequence[str]) -> Iterator[str]:
    lines = set(result.stdout.splitlines())
    return (name for name in names if result.returncode == 0 and name in lines)


def get_umask() -> int:
    """Return this process's umask. The only portable way to read it is to set it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def get_owner() -> str:
    """Return `uid:gid` of this user, who gets the reports; empty for root."""
    if not hasattr(os, "getuid") or os.getuid() == 0:
        return ""
    return f"{os.getuid()}:{os.getgid()}"


def check_local_paths(job: Job, image: ImageRef, options: Sequence[str]) -> Steps[None]:
    """Raise an error if the command names a file of this machine that the container lacks."""
    names = find_local_paths(job)
    if not names:
        return
    workdir = [f"--workdir={job.workdir}"] if job.workdir else []
    question = (
        *(ENGINE, "run", "--rm", "--pull=never", "--entrypoint=sh"),
        *map(mount_option, job.mounts),
        *(*workdir, *options, str(image)),
        *("-c", LIST_ABSENT, "sh", *names),
    )
    refuse_absent((yield make_command(*question)), names)
