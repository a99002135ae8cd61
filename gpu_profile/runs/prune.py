"""Choose old runs of this user, and remove their directories."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from gpu_profile import files
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.runs import job_note, owner
from gpu_profile.runs.record import RUN_FILE, RunRecord, list_runs, load_run

_ENDED = ("done", "failed", "cancelled", "stopped", "interrupted")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
"""Suffixes of an age, with the argument of timedelta."""


@dataclass(frozen=True)
class OldRuns:
    """The runs to remove, oldest first, and how many old ones are left: tagged, going on, damaged
    or behind a link.
    """

    removable: tuple[Path, ...]
    spared_count: int = 0


def parse_age(text: str) -> timedelta:
    """Return the age of `30d`, `12h` or `4w`. Raises SettingsError."""
    match = re.fullmatch(r"(\d{1,5})([hdw])", text)
    if match is None:
        raise SettingsError(f"--older {text!r} is not an age", "Use a number and h, d or w: 30d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def find_old_runs(report_dir: Path, now: datetime, keep: int, age: timedelta) -> OldRuns:
    """Return the runs but the latest `keep` that began more than `age` ago.

    Runs that have not ended are spared, because their job may still bring reports; so are tagged
    ones, directories behind a link, and runs whose record is damaged. A run whose process was
    killed before it had submitted the job has ended.
    """
    runs = list_runs(report_dir)
    older = runs[: len(runs) - keep] if keep else runs
    removable, spared = [], 0
    for directory in older:
        is_kept = directory.is_symlink() or job_note.list_tags(directory)
        run = None if is_kept else _read_record(directory)
        if run is None or not (
            run.cleaned or run.phase in _ENDED or _has_never_started(run, directory)
        ):
            spared += 1
        elif now - _find_start(run, directory) > age:
            removable.append(directory)
    return OldRuns(tuple(removable), spared)


def _has_never_started(run: RunRecord, directory: Path) -> bool:
    """Return whether the process was killed that was to submit the job: none follows the run."""
    lock = files.lock_directory(directory) if run.phase == "submitting" else None
    if lock is None:
        return False
    os.close(lock)
    return True


def _read_record(directory: Path) -> RunRecord | None:
    try:
        return load_run(directory)
    except SettingsError:
        return None


def _find_start(run: RunRecord, directory: Path) -> datetime:
    """Return when the run began; older versions did not record it: when its record was written."""
    try:
        started = datetime.fromisoformat(run.started_at)
    except ValueError:
        written = (directory / RUN_FILE).lstat().st_mtime
        return datetime.fromtimestamp(written, timezone.utc)
    return started if started.tzinfo else started.replace(tzinfo=timezone.utc)


def measure_folder(directory: Path) -> int:
    """Return the bytes of all files below a directory. Links count for themselves."""
    return sum(_list_sizes(directory))


def _list_sizes(directory: Path) -> Iterator[int]:
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                yield Path(folder, name).lstat().st_size
            except FileNotFoundError:  # a running job removed it
                continue


def remove_runs(directories: Sequence[Path]) -> None:
    """Remove run directories. Raises ToolError that names those of which something is left.

    The owner is asked again: the directory may be another one than the one that was shown.
    """
    failures = []
    for directory in directories:
        if directory.is_symlink() or not owner.is_own(directory, directory / RUN_FILE):
            failures.append(f"{directory} is not yours any more")
            continue
        try:
            shutil.rmtree(directory)
            job_note.remove_note(directory)
        except OSError as error:
            failures.append(f"{error.filename or directory}: {error.strerror}")
    if failures:
        raise ToolError(f"not removed: {'; '.join(failures)}", "Remove these with their owner")
