"""stop: end a job, or the local container."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.jobs import StopOptions
from gpu_profile.cli.terminal import tell
from gpu_profile.engine import container
from gpu_profile.errors import SettingsError
from gpu_profile.job import Handle
from gpu_profile.launcher import Launcher
from gpu_profile.runs import job_note, record
from gpu_profile.runs.outcome import describe_end
from gpu_profile.verbs.jobs.job_or_container import answer_for_job


def stop(options: StopOptions) -> None:
    """Stop the job of --job, or the local container."""
    settings = load_settings(options)

    def stop_job(launcher: Launcher, job_id: str) -> str:
        handle = str(Handle(launcher=launcher.name, id=job_id))
        has_ended = process.drive(launcher.status(job_id)).state.finished
        with contextlib.nullcontext() if has_ended else _marked(settings.report_dir, handle):
            process.drive(launcher.stop(job_id))
        state = "has ended" if has_ended else "stopped"
        tell(f"{options.job} {state}; `invoke fetch --job {options.job}` brings its reports")
        return ""

    text = answer_for_job(
        options.job,
        settings,
        ended=describe_end,
        job=stop_job,
        container=lambda name: process.drive(container.stop_container(name)),
    )
    if text:
        print(text)


@contextlib.contextmanager
def _marked(report_dir: Path, handle: str) -> Iterator[None]:
    """Mark the job's run as stopped by the user. The mark comes first: its end is soon followed.

    A run that another machine started has no directory here, and is not marked.
    """
    try:
        directory = record.find_run(report_dir, handle)
    except SettingsError:
        yield
        return
    job_note.mark_stopped(directory)
    try:
        yield
    except Exception:
        job_note.mark_stopped(directory, stopped=False)
        raise
