"""One process at a time follows a run. What killed processes left is listed by the next start."""

import contextlib
import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gpu_profile import files, process
from gpu_profile.analysis.store.files import temporary
from gpu_profile.errors import EngineAwayError, JobError, SettingsError
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.launcher import Launcher
from gpu_profile.progress import Progress
from gpu_profile.runs import job_note, record
from gpu_profile.runs.job_note import JobNote
from gpu_profile.runs.outcome import format_phase
from gpu_profile.runs.output_log import OutputLog, last_line
from gpu_profile.runs.record import RunRecord

# Pauses between two status queries: before the job runs, while it runs, and in long runs. The end
# of its log mostly shows the end of the job at once. A query takes CPU time from a job on this
# machine, and from the API server: three calls of kubectl take 0.2 s, and 0.7 s on a busy machine,
# where pods take 20 s to start. So a pause is six times as long as the query was.
_STARTING_S, _RUNNING_S, _LONG_S, _PAUSE_PER_QUERY = 0.2, 1.0, 5.0, 6
_UNFINISHED = ("submitting", "running", "fetching")


class Follower:
    """This process' right to follow one run: a lock on the run directory, and a note beside it."""

    def __init__(self, directory: Path, progress: Progress) -> None:
        self._directory = directory
        self._progress = progress
        self._held = contextlib.ExitStack()
        self.following = False

    def begin(self, handle: str) -> None:
        """Wait until no other process follows the run, and write the note."""
        if not self.following:
            lock = files.lock_directory(self._directory)
            if lock is None:
                self._progress.say(f"another process follows {self._directory.name}: waiting")
                lock = files.lock_directory(self._directory, wait=True)
            self._held.callback(os.close, lock) if lock else None
            self.following = True
        stopped = job_note.is_stopped(self._directory)
        note = JobNote(handle=handle, followed=True, stopped=stopped)
        job_note.write_note(self._directory, note)

    def end(self) -> None:
        """Let others follow. A run whose job was removed needs no note."""
        with contextlib.suppress(OSError, SettingsError):
            note = job_note.read_note(self._directory)
            if _is_cleaned(self._directory):
                job_note.remove_note(self._directory)
            elif note:
                job_note.write_note(self._directory, dataclasses.replace(note, followed=False))
        self.following = False
        self._held.close()


def _is_cleaned(directory: Path) -> bool:
    try:
        return record.load_run(directory).cleaned
    except SettingsError:
        return False


class Absence:
    """Measures how long the engine of a run has not answered."""

    def __init__(self, run: RunRecord) -> None:
        self._run = run
        self._since: float | None = None

    def check(self, status: JobStatus) -> None:
        """Raise EngineAwayError once the state is UNKNOWN for longer than `patience_s`."""
        if status.state is not JobState.UNKNOWN or status.patience_s is None:
            self._since = None
            return
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since >= status.patience_s:
            reason = status.reason or "its engine does not answer"
            lasting = f", for {status.patience_s:g} s now" if status.patience_s else ""
            what = f"{self._run.handle} may run on: {reason}{lasting}"
            raise EngineAwayError(what, f"`invoke fetch --job {self._run.id}` goes on")


def watch_job(
    launcher: Launcher,
    job_id: str,
    run: RunRecord,
    log: OutputLog,
    progress: Progress,
    until: float,
) -> JobStatus:
    """Return the state in which the job ended. Its output goes to the log while it runs.

    `until` is a time of time.monotonic(). Raises JobError if the job has not ended by then.
    """
    started, absence = time.monotonic(), Absence(run)
    with contextlib.ExitStack() as follow:
        pause: Callable[[float], None] = time.sleep
        following = False
        while time.monotonic() < until:
            begin = time.monotonic()
            status = process.drive(launcher.status(job_id))
            took = time.monotonic() - begin
            absence.check(status)
            if status.state.is_finished:
                return status
            if status.state is JobState.RUNNING and not following:
                logs = launcher.logs(job_id, follow=True)
                pause = follow.enter_context(log.copy_in_background(logs))
                following = True
            progress.show(format_phase(status), last_line(log.path))
            shortest = _RUNNING_S if following else _STARTING_S
            # A thirtieth of the time so far: the end of a job of a minute is seen after 2 s.
            late = (time.monotonic() - started) / 30
            pause(min(max(late, shortest, _PAUSE_PER_QUERY * took), _LONG_S))
    raise JobError(f"{run.handle} did not end", "`invoke stop --job` tries again")


def tell_left(report_dir: Path) -> None:
    """Print the lines of list_left to standard error."""
    for line in list_left(report_dir):
        Progress().say(line)


def list_left(report_dir: Path) -> Iterator[str]:
    """Yield a line for each run whose process was killed, and remove its temporary files.

    A run with --detach has no process, and is none of them.
    """
    for directory, note in job_note.list_notes(report_dir):
        lock = files.lock_directory(directory) if note.followed else None
        if lock is not None:
            os.close(lock)
            yield from _describe_left(directory)
    removed = temporary.sweep()
    with contextlib.suppress(OSError, SettingsError):  # no such REPORT_DIR
        removed += sum(map(files.remove_drafts, (report_dir, *record.list_runs(report_dir))))
    if removed:
        noun = "file or folder" if removed == 1 else "files and folders"
        yield f"removed {removed} temporary {noun} of processes that were killed"


def _describe_left(directory: Path) -> Iterator[str]:
    try:
        phase = record.load_run(directory).phase
    except SettingsError:
        return
    if phase in _UNFINISHED:
        again = f"`invoke fetch --job {directory.name}` goes on"
        yield f"{directory.name} ({phase}) was left by a process that was killed: {again}"
