"""Print a run's reports, findings and tables at the end of profile and fetch."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.options.jobs import FetchOptions, ProfileOptions
from gpu_profile.cli.options.reading import StatsOptions
from gpu_profile.cli.run_verb import run_verb
from gpu_profile.errors import GpuProfileError, Interrupted, JobError
from gpu_profile.progress import Progress
from gpu_profile.runs import record
from gpu_profile.runs.outcome import STOPPED, describe_steps
from gpu_profile.runs.record import OUTPUT_FILE, RunRecord
from gpu_profile.settings.settings import Settings


def tell_run(
    run: RunRecord, directory: Path, options: ProfileOptions | FetchOptions, settings: Settings
) -> None:
    """Print a run's reports, its findings, and the tables if asked for."""
    text = options.format != "json"
    if text:
        _print_summary(run, directory)
    if run.phase == "stopped":
        Progress().say(f"{run.id}: {STOPPED}")
    if run.reports:
        # The job had its environment before this: numpy is imported here, with one thread.
        with process.one_math_thread():
            from gpu_profile.verbs.reading.findings import print_answer

            print_answer(options, settings, directory)
    if text and run.reports and (options.stats or not _has_gpu_work(run)):
        print()
        stats = StatsOptions(
            set=options.set,
            env_file=options.env_file,
            environ=options.environ,
            run=str(directory),
            top=10,
            table=_choose_first_table(run),
            notes=False,
            together=True,
        )
        run_verb("stats", stats)
    if text and (directory / OUTPUT_FILE).is_file():
        print(f"output of the job: {directory / OUTPUT_FILE}")


@contextlib.contextmanager
def telling_reports(
    directory: Path, options: ProfileOptions | FetchOptions, settings: Settings
) -> Iterator[None]:
    """Print what the reports of a failed or interrupted job tell, and raise its error again.

    What stops that is one line: the job's own error comes last.
    """
    try:
        yield
    except (Interrupted, JobError):
        try:
            run = record.load_run(directory)
            if run.reports:
                tell_run(run, directory, options, settings)
        except GpuProfileError as error:
            Progress().say(f"note: {error}")
        raise


def _has_gpu_work(run: RunRecord) -> bool:
    return any(facts.events.get("cuda") for facts in run.reports)


def _choose_first_table(run: RunRecord) -> str:
    """Return the table to print first: kernels if there are GPUs, otherwise NVTX ranges."""
    kinds = {kind for facts in run.reports for kind, count in facts.events.items() if count}
    tables = {"cuda": "cuda_gpu_kern_sum", "nvtx": "nvtx_sum", "mpi": "mpi_event_sum"}
    return next((table for kind, table in tables.items() if kind in kinds), "osrt_sum")


def _print_summary(run: RunRecord, directory: Path) -> None:
    for facts in run.reports:
        kinds = ", ".join(f"{count} {kind}" for kind, count in facts.events.items() if count)
        size = f"{facts.bytes / 1e6:.1f} MB"
        print(f"{directory / facts.file}: {size}, {kinds} events{describe_steps(facts)}")
