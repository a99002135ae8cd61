"""Build a run's first record, and say how its job ended."""

import dataclasses
import signal
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from gpu_profile import __version__, process
from gpu_profile.errors import GpuProfileError, Interrupted, JobError, ReportError
from gpu_profile.job import Handle, Job, NsysPlan, ProfileSpec
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.launcher import Launcher
from gpu_profile.redact import CommandLine
from gpu_profile.runs import baseline, output_log
from gpu_profile.runs.record import OUTPUT_FILE, ReportSummary, RunRecord
from gpu_profile.runs.reports.validate import Report, check_events, check_ranks, has_recordings

STOPPED = "stopped by you"
_BY_SIGNAL = 128  # a shell's exit code of a program that a signal ended is this and the signal
_WORDS = {"done": "succeeded", "stopped": STOPPED, "interrupted": STOPPED}


def predict_handle(launcher: Launcher, job: Job, plan: NsysPlan) -> str:
    """Return the handle that the job will have, without starting it; empty if only a start says it.

    Names follow from the job's name, except Slurm's numbers.
    """
    try:
        _, job_id = process.plan_value(launcher.submit(job, plan))
    except GpuProfileError:
        return ""
    return str(Handle(launcher=launcher.name, id=job_id)) if job_id else ""


def make_record(
    job: Job, launcher: Launcher, plan: NsysPlan, kinds: tuple[str, ...], handle: str = ""
) -> RunRecord:
    """Return the record of a run that is about to be submitted, without secrets of its command."""
    resources = job.resources
    world = job.least_ranks or resources.nodes * (resources.tasks_per_node or 1)
    chosen = job.profile.ranks if job.profile else frozenset()
    return RunRecord(
        id=job.name,
        launcher=launcher.name,
        handle=handle,
        command=CommandLine().redact_argv(job.command),
        nsys=CommandLine().redact_argv((*plan.options, *plan.first)) if job.profile else (),
        image=str(job.image or ""),
        started_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        spec={
            "resources": dataclasses.asdict(resources),
            "env": sorted(job.env),
            **_list_place(job),
            **_list_record(job),
        },
        versions={"gpu-profile": __version__},
        ranks=tuple(rank for rank in range(world) if chosen is None or rank in chosen),
        kinds=kinds if job.profile else (),
    )


def _list_place(job: Job) -> dict[str, object]:
    """Return what `drill` needs to start the command again, where that is not the default."""
    mounts = [f"{each.source}:{each.target}{':ro' * each.read_only}" for each in job.mounts]
    facts = {"ddp": job.ddp, "mounts": mounts}
    return {name: value for name, value in facts.items() if value}


def _list_record(job: Job) -> dict[str, str]:
    """Return what is not the usual: when recording begins, and what records."""
    spec = job.profile or ProfileSpec()
    words = {"record": str(spec.record), "with": str(spec.tool)}
    return {name: word for name, word in words.items() if word not in ("start", "nsys")}


def make_job_failure(status: JobStatus, directory: Path) -> GpuProfileError | None:
    """Return the job's own error, with the last line of its output; None if it succeeded."""
    if status.state is JobState.SUCCEEDED:
        return None
    word = "was cancelled" if status.state is JobState.CANCELLED else status.state.value
    code = "" if status.exit_code is None else f" with exit code {name_code(status.exit_code)}"
    reason = f": {status.reason}" if status.reason else ""
    log = directory / OUTPUT_FILE
    last = output_log.last_line(log)
    news = last and not (status.reason and status.reason in last)
    return JobError(
        f"the job {word}{code}{reason}" + (f"; its last line: {last}" if news else ""),
        f"{'What it recorded is kept; see' if has_recordings(directory) else 'See'} {log}",
    )


def name_code(exit_code: int) -> str:
    """Return an exit code with the signal that a shell means by it: `139 (segmentation fault)`."""
    try:
        name = signal.strsignal(exit_code - _BY_SIGNAL) if exit_code > _BY_SIGNAL else None
    except ValueError:
        name = None
    return f"{exit_code} ({name.lower()})" if name else str(exit_code)


def make_abandoned_error(run: RunRecord) -> Interrupted:
    """Return the error of a second Ctrl-C, after which the job may run on."""
    return Interrupted(
        f"interrupted; {run.handle} may run on",
        f"`invoke stop --job {run.id}` ends it, `invoke fetch --job {run.id}` brings its reports",
    )


def find_trouble(
    run: RunRecord, reports: Sequence[Report], kinds: Sequence[str], directory: Path
) -> ReportError | None:
    """Return the error of a rank without a report, or of a report without events of `kinds`."""
    # a run started on another machine has a handle but no list of ranks
    ranks = run.ranks or tuple(fetched_report.rank for fetched_report in reports) or (0,)
    try:
        if "record" not in run.spec:  # nobody may have asked for a window
            check_ranks(reports, ranks, directory)
        for fetched_report, facts in zip(reports, run.reports, strict=True):
            check_events(fetched_report, facts.events, kinds)
    except ReportError as error:
        return error
    return None


def format_phase(status: JobStatus) -> str:
    return f"{status.state.value} ({status.reason})" if status.reason else status.state.value


def describe_steps(report: ReportSummary) -> str:
    """Return ", steps 0 to 59" of a report whose steps or forwards the program counted, or ""."""
    begin, end = report.recorded_steps if len(report.recorded_steps) == 2 else (0, 0)
    return f", {report.step_unit}s {begin} to {end - 1}" if end > begin else ""


def describe_end(directory: Path, run: RunRecord) -> str:
    """Return one line on a finished run: its state, reports, cost and error."""
    code = "" if run.exit_code is None else f", exit code {run.exit_code}"
    count = len(run.reports)
    steps = describe_steps(run.reports[0]) if run.reports else ""
    remains = f"{directory} has {count or 'no'} report{'' if count == 1 else 's'}{steps}"
    state = _WORDS.get(run.phase, run.phase)
    return "; ".join(
        filter(None, (state + code, remains, baseline.describe_cost(run.baseline), run.error))
    )
