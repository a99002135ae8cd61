"""run, exec, logs, status, stop: the local container, or any job by its handle."""

import sys
from pathlib import Path

from gpu_profile import files, process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import job_of, run_at_home
from gpu_profile.cli.table import Options, Verb
from gpu_profile.cli.terminal import run_or_raise, show_commands
from gpu_profile.command import Steps
from gpu_profile.engine import container
from gpu_profile.errors import GpuProfileError, ToolError
from gpu_profile.launcher import JobStatus
from gpu_profile.launchers.docker import DockerLauncher
from gpu_profile.runs import baseline
from gpu_profile.runs import record as rundir
from gpu_profile.runs.record import OUTPUT_FILE, RunRecord
from gpu_profile.verbs.image.lock import apply_version


def run(verb: Verb, options: Options) -> None:
    """Start the local container, or print the commands with --dry-run."""
    chosen = apply_version(load_settings(verb, options))
    engine = DockerLauncher.from_settings(chosen)
    gpus = container.gpu_options(_count_gpus(engine, planning=bool(options["dry_run"])) and None)
    steps = container.start_container(chosen, chosen.image_ref, gpus)
    if options["dry_run"]:
        show_commands(process.plan(steps))
    else:
        rundir.make_private(chosen.report_dir / chosen.container)
        print(process.drive(steps))


def _count_gpus(engine: DockerLauncher, *, planning: bool) -> int | None:
    """Return the engine's number of GPUs. --dry-run works without an engine too."""
    try:
        return process.drive(engine.gpus())
    except GpuProfileError:
        if planning:
            return 0
        raise


def exec(verb: Verb, options: Options) -> None:
    """Run words in the local container, or a shell. Exits with the program's exit code."""
    chosen = load_settings(verb, options)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    argv = options["words"] or ("bash",)
    process.drive(container.require_container(chosen.container, running=True))
    code = process.run_attached(
        container.execute_in_container(chosen.container, argv, terminal=terminal)
    )
    if code:
        sys.exit(code)


def logs(verb: Verb, options: Options) -> None:
    """Print a job's output, from its run directory once the engine has removed the job."""
    chosen = load_settings(verb, options)
    home = run_at_home(options, chosen)
    if home:
        sys.stdout.write(files.read_text(home[0] / OUTPUT_FILE))
        return
    job = job_of(options, chosen)
    follow = bool(options["follow"])
    if job:
        run_or_raise(job[0].logs(job[1], follow=follow), ToolError)
    else:
        process.drive(container.require_container(chosen.container, running=False))
        run_or_raise(container.follow_logs(chosen.container, follow=follow), ToolError)


def status(verb: Verb, options: Options) -> None:
    """Print a job's state, from its record once the engine has removed the job."""
    chosen = load_settings(verb, options)
    home = run_at_home(options, chosen)
    if home:
        print(_describe_end(*home))
        return
    job = job_of(options, chosen)
    if job:
        print(_format_status(process.drive(job[0].status(job[1]))))
    else:
        print(process.drive(_container_status(chosen.container)))


def stop(verb: Verb, options: Options) -> None:
    """Stop the job of --job, or the local container."""
    chosen = load_settings(verb, options)
    home = run_at_home(options, chosen)
    if home:
        print(_describe_end(*home))
        return
    job = job_of(options, chosen)
    if job:
        process.drive(job[0].stop(job[1]))
        print(f"{options['job']} stopped; `invoke fetch --job {options['job']}` brings its reports")
    else:
        print(process.drive(container.stop_container(chosen.container)))


def _format_status(status: JobStatus) -> str:
    code = "" if status.exit_code is None else f", exit code {status.exit_code}"
    return f"{status.state.value}{code}{f': {status.reason}' if status.reason else ''}"


_WORDS = {"done": "succeeded", "interrupted": "cancelled"}


def _describe_end(directory: Path, run: RunRecord) -> str:
    """Return one line on a finished run: its state, reports, cost and error."""
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    count = len(run.reports)
    remains = f"{directory} has {count or 'no'} report{'' if count == 1 else 's'}"
    state = _WORDS.get(run.phase, run.phase)
    return "; ".join(
        filter(None, (state + code, remains, baseline.describe_cost(run.baseline), run.error))
    )


def _container_status(name: str) -> Steps[str]:
    state = container.parse_state((yield container.inspect_container(name)))
    return f"{name}: {state['Status']}" if state else f"{name}: not there"
