"""run, exec, status, logs and stop: the local container, and jobs where --job names one."""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from gpu_profile import files, process, redact
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import explaining_lost_start, job_of, run_at_home
from gpu_profile.cli.options.jobs import (
    ExecOptions,
    LogsOptions,
    RunOptions,
    StatusOptions,
    StopOptions,
)
from gpu_profile.cli.terminal import copy_or_raise, print_message, run_or_raise, show_commands
from gpu_profile.command import Steps
from gpu_profile.engine import container, image_programs, local_container
from gpu_profile.errors import GpuProfileError, SettingsError, ToolError
from gpu_profile.job import Handle
from gpu_profile.job_status import JobStatus
from gpu_profile.launcher import Launcher
from gpu_profile.printable import name_program
from gpu_profile.progress import Progress
from gpu_profile.runs import job_note, output_log, record
from gpu_profile.runs.follower import tell_left
from gpu_profile.runs.job_note import JobNote, write_note
from gpu_profile.runs.outcome import describe_end
from gpu_profile.runs.record import OUTPUT_FILE, RunRecord
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.image.lock import apply_version


def answer_for_job(
    job_text: str,
    settings: Settings,
    *,
    ended: Callable[[Path, RunRecord], str],
    job: Callable[[Launcher, str], str],
    container: Callable[[str], str],
) -> str:
    """Return the text of the function that fits `job_text`, the value of --job; call no other.

    `ended` gets the directory and record of a run whose engine has removed it, `job` the launcher
    and the job's id, `container` the name of the local container, where --job is not named.
    """
    home = run_at_home(job_text, settings)
    if home:
        return ended(*home)
    elsewhere = job_of(job_text, settings)
    if not elsewhere:
        return container(settings.container)
    with explaining_lost_start(job_text, settings):
        return job(*elsewhere)


def run(options: RunOptions) -> None:
    """Start the local container, or print the commands with --dry-run."""
    settings = apply_version(load_settings(options))
    gpus = container.gpu_options(_count_gpus(planning=options.dry_run) and None)
    steps = local_container.start_container(settings, settings.image_ref, gpus)
    if options.dry_run:
        show_commands(process.plan(steps))
    else:
        directory = settings.report_dir / settings.container
        record.make_private(directory)
        write_note(directory, JobNote(handle=""))  # a run.json in it names no job of ours
        print(process.drive(steps))


def _count_gpus(*, planning: bool) -> int:
    """Return the engine's number of GPUs. --dry-run works without an engine too."""
    try:
        return process.drive(image_programs.count_gpus())
    except GpuProfileError:
        if planning:
            return 0
        raise


def exec(options: ExecOptions) -> None:
    """Run words in the local container, or a shell. Exits with the program's exit code."""
    settings = load_settings(options)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    # `docker exec --tty` refuses to run where an end is no terminal, such as in a pipe.
    argv = options.words or ("bash",)
    process.drive(local_container.require_container(settings.container, running=True))
    code = process.run_attached(
        local_container.execute_in_container(settings.container, argv, terminal=terminal)
    )
    if code:
        sys.exit(code)


def status(options: StatusOptions) -> None:
    """Print a job's state, from its record once the engine has removed the job."""
    settings = load_settings(options)
    text = answer_for_job(
        options.job,
        settings,
        ended=describe_end,
        job=lambda launcher, job_id: _format_status(process.drive(launcher.status(job_id))),
        container=lambda name: process.drive(_get_container_status(name)),
    )
    tell_left(settings.report_dir)  # after the job is known: a refusal is one line
    print(text)


def _format_status(status: JobStatus) -> str:
    code = "" if status.exit_code is None else f", exit code {status.exit_code}"
    return f"{status.state.value}{code}{f': {status.reason}' if status.reason else ''}"


def _get_container_status(name: str) -> Steps[str]:
    state = container.parse_state((yield container.inspect_container(name)))
    if state:
        return f"{name}: {state['Status']}"
    hint = name_program("`invoke run` starts it; --job NAME asks for a job")
    return f"container {name}: not there. {hint}"


def logs(options: LogsOptions) -> None:
    """Print a job's output, from its run directory once the engine has removed the job."""
    follow = options.follow
    text = answer_for_job(
        options.job,
        load_settings(options),
        ended=lambda directory, _: files.read_text(directory / OUTPUT_FILE),
        job=lambda launcher, job_id: _print_redacted(launcher, job_id, options),
        container=lambda name: _attach_container(name, follow=follow),
    )
    sys.stdout.write(text)


def _print_redacted(launcher: Launcher, job_id: str, options: LogsOptions) -> str:
    """Print the output without credentials, as output.log has it; return nothing more to print."""
    user_secrets = redact.secret_values(options.environ)
    secrets = user_secrets + output_log.find_secrets(launcher, job_id, Progress())
    copy = functools.partial(output_log.copy_redacted, secrets=secrets)
    copy_or_raise(launcher.logs(job_id, follow=options.follow), copy, ToolError)
    return ""


def _attach_container(name: str, *, follow: bool) -> str:
    process.drive(local_container.require_container(name, running=False))
    run_or_raise(container.follow_logs(name, follow=follow), ToolError)
    return ""


def stop(options: StopOptions) -> None:
    """Stop the job of --job, or the local container."""
    settings = load_settings(options)

    def stop_job(launcher: Launcher, job_id: str) -> str:
        handle = str(Handle(launcher=launcher.name, id=job_id))
        has_ended = process.drive(launcher.status(job_id)).state.is_finished
        # A job that had ended by itself keeps its own result.
        with contextlib.nullcontext() if has_ended else _marked(settings.report_dir, handle):
            process.drive(launcher.stop(job_id))
        state = "has ended" if has_ended else "stopped"
        print_message(
            f"{options.job} {state}; `invoke fetch --job {options.job}` brings its reports"
        )
        return ""

    text = answer_for_job(
        options.job,
        settings,
        ended=describe_end,
        job=stop_job,
        container=lambda name: process.drive(local_container.stop_container(name)),
    )
    if text:
        print(text)


@contextlib.contextmanager
def _marked(report_dir: Path, handle: str) -> Iterator[None]:
    """Mark the job's run as stopped by the user. The mark comes first: its end is soon followed.

    A run that was started from another REPORT_DIR is not marked, and one line says so.
    """
    try:
        directory = record.find_run(report_dir, handle)
    except SettingsError:
        yield
        print_message(
            f"note: no run of {report_dir} has this job: its own run.json will call it failed"
        )
        return
    job_note.mark_stopped(directory)
    try:
        yield
    except Exception:
        job_note.mark_stopped(directory, stopped=False)
        raise
