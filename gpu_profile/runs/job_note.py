"""The note beside a run directory: which job was started, and whether a process follows it.

A job in a container can write to its run directory, and so replace run.json. It cannot reach the
note `REPORT_DIR/.RUN-ID.job`, so the handle in the note is the one that verbs use.
"""

import functools
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpu_profile import files
from gpu_profile.errors import ReportError
from gpu_profile.progress import Progress

_BYTES = 1 << 16  # a larger note is not one of ours


@dataclass(frozen=True, kw_only=True)
class JobNote:
    """`handle`: as in run.json, empty for a directory without a job (`invoke run`).

    `followed`: a process waits for the job. If that process has ended, it was killed, or its
    terminal is gone. `stopped`: this user ended the job by `stop` or Ctrl-C. `tags`: names that
    this user gave the run, such as "main".
    """

    handle: str
    followed: bool = False
    stopped: bool = False
    tags: tuple[str, ...] = ()


def _place(directory: Path) -> Path:
    return directory.parent / f".{directory.name}.job"


def write_note(directory: Path, note: JobNote) -> None:
    files.write_atomically(_place(directory.absolute()), json.dumps(asdict(note)) + "\n")


def mark_stopped(directory: Path, *, stopped: bool = True) -> None:
    """Record that this user ended the job, or with stopped=False that it was not ended."""
    note = read_note(directory)
    if note:
        write_note(directory, replace(note, stopped=stopped))


def is_stopped(directory: Path) -> bool:
    """Return whether the user ended the run's job."""
    note = read_note(directory)
    return note is not None and note.stopped


def list_tags(directory: Path) -> tuple[str, ...]:
    """Return the names that this user gave the run."""
    note = read_note(directory)
    return note.tags if note else ()


def remove_note(directory: Path) -> None:
    _place(directory.absolute()).unlink(missing_ok=True)


def read_note(directory: Path) -> JobNote | None:
    """Return this user's note on a run; None for a run of an older version, or of another user."""
    try:
        with files.open_regular(_place(directory.absolute())) as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            note = JobNote(**json.loads(file.read(_BYTES)))
            return replace(note, tags=tuple(map(str, note.tags)))
    except (OSError, ReportError, ValueError, TypeError):
        return None


def trusted_handle(directory: Path, handle: str) -> str:
    """Return the handle of the note, if there is one, otherwise `handle` from run.json."""
    note = read_note(directory)
    if note is None or note.handle == handle:
        return handle
    _warn(directory, handle, note.handle)
    return note.handle


@functools.cache
def _warn(directory: Path, handle: str, submitted: str) -> None:
    what = f"note: {directory / 'run.json'} names the job {handle or 'none'}, and not"
    Progress().say(
        f"{what} {submitted or 'none'}, which was started: its job may have written to it"
    )


def list_notes(report_dir: Path) -> Iterator[tuple[Path, JobNote]]:
    """Yield the run directories with a note of this user. Notes without a directory are removed."""
    for path in sorted(report_dir.glob(".*.job")):
        directory = report_dir / path.name[1 : -len(".job")]
        note = read_note(directory)
        if note and directory.is_dir():
            yield directory, note
        elif note:
            remove_note(directory)
