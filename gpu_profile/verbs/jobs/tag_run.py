"""Names that a user gives runs: `compare --base main` reads the run that is tagged `main`.

A tag stands in the note beside the run directory, which the run's job cannot reach: a job must not
choose the baseline that it is judged by.
"""

import dataclasses
from pathlib import Path

from gpu_profile.errors import SettingsError
from gpu_profile.runs import record
from gpu_profile.runs.job_note import JobNote, list_tags, read_note, write_note


def tag_run(report_dir: Path, tag: str, directory: Path) -> Path | None:
    """Give the run a tag. Return the run that had it before.

    Raises SettingsError for a tag that is the id or name of a run.
    """
    runs = record.list_runs(report_dir)
    if record.find_by_name(runs, tag):
        what = f"--tag {tag}: a run has this name"
        raise SettingsError(what, "Choose another, or `invoke reports --prune` the run")
    before = record.find_tagged(runs, tag)
    if before and before != directory:
        _save_tags(before, tuple(name for name in list_tags(before) if name != tag))
    _save_tags(directory, tuple(sorted({*list_tags(directory), tag})))
    return before if before != directory else None


def untag_run(report_dir: Path, tag: str) -> Path:
    """Take the tag from its run, and return the run. Raises SettingsError if no run has it."""
    directory = record.find_tagged(record.list_runs(report_dir), tag)
    if directory is None:
        raise SettingsError(f"no run is tagged {tag!r}", "`invoke reports` lists runs and tags")
    _save_tags(directory, tuple(name for name in list_tags(directory) if name != tag))
    return directory


def _save_tags(directory: Path, tags: tuple[str, ...]) -> None:
    note = read_note(directory) or JobNote(handle=record.load_run(directory).handle)
    write_note(directory, dataclasses.replace(note, tags=tags))
