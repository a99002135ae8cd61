"""The steps of every run, on each launcher: submit, wait, fetch, validate, record."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from gpu_profile import errors, files, process, redact, signals
from gpu_profile.errors import (
    EngineAwayError,
    GpuProfileError,
    Interrupted,
    JobError,
    NameTakenError,
    ReportError,
    Stopped,
    ToolError,
)
from gpu_profile.job import FINALISE_S, Handle, Job, NsysPlan
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.launcher import Launcher
from gpu_profile.progress import Progress
from gpu_profile.runs import job_note, output_log, record
from gpu_profile.runs.follower import Follower, watch_job
from gpu_profile.runs.outcome import (
    STOPPED,
    find_trouble,
    make_abandoned_error,
    make_job_failure,
    make_record,
    predict_handle,
)
from gpu_profile.runs.record import OUTPUT_FILE, RunRecord
from gpu_profile.runs.reports import validate as report
from gpu_profile.runs.reports.export_report import export_fetched


@dataclass
class Runner:
    """Takes one job through its run, on a launcher and in a run directory."""

    launcher: Launcher
    directory: Path
    progress: Progress
    keep: bool = False
    secrets: tuple[str, ...] = ()
    """Values of variables named like credentials, which output.log must not show."""
    nsys: str = ""
    """The nsys for exports that the launcher cannot make; empty: the one on this machine's PATH."""
    _has_all_secrets: bool = False
    """Whether `secrets` holds the credentials of the job's --env."""
    _is_interrupted: bool = False
    _since: float = field(default_factory=time.monotonic)
    follower: Follower = field(init=False)
    _held_signals: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Ctrl-C and SIGTERM, held back from the submission until `finish` can stop the job."""

    def __post_init__(self) -> None:
        self.follower = Follower(self.directory, self.progress)

    def start(self, job: Job, plan: NsysPlan, kinds: tuple[str, ...]) -> RunRecord:
        """Submit the job and record its handle."""
        self.secrets += redact.secret_values(job.env)
        self._has_all_secrets = True
        # A process that is killed meanwhile leaves the handle that the job will most likely have.
        handle = predict_handle(self.launcher, job, plan)
        run = make_record(job, self.launcher, plan, kinds, handle)
        record.save_run(run, self.directory)
        self.follower.begin(handle)
        with self._followed(run), signals.hold_signals("SIGHUP"), self._recorded(run):
            job_id = process.drive(self.launcher.submit(job, plan))
            # From here on a signal would end us with a job that nothing stops.
            self._held_signals.enter_context(signals.hold_signals("SIGINT", "SIGTERM"))
            handle = str(Handle(launcher=self.launcher.name, id=job_id))
            self.follower.begin(handle)
            return self._save(run, phase="running", handle=handle)

    def detach(self) -> None:
        """Leave the submitted job to another process: `fetch --job ID` goes on."""
        self.follower.end()
        self._held_signals.close()

    def finish(self, run: RunRecord) -> RunRecord:
        """Wait, fetch, validate and clean up. Raises the run's error after recording it.

        It waits while another process follows the run, and returns the result of that one. SIGHUP
        ends this process only: the record stays as it is, and `fetch` goes on.
        """
        fresh = not self.follower.following
        self.follower.begin(run.handle)
        with self._followed(run):
            run = record.load_run(self.directory) if fresh else run
            run = run if run.cleaned else self._finish(run)
        self.follower.end()
        return run

    def _finish(self, run: RunRecord) -> RunRecord:
        job_id = Handle.parse(run.handle).id
        with self._recorded(run):
            try:
                self._held_signals.close()
                status = self._wait(job_id, run)
            except KeyboardInterrupt:
                status = self._stop(job_id, run)
        run = self._fetch_recorded(job_id, run, status)
        return self._record_result(job_id, run, status)

    def _fetch_recorded(self, job_id: str, run: RunRecord, status: JobStatus) -> RunRecord:
        """Fetch the reports in the phase "fetching". Ctrl-C leaves them where they are."""
        seconds = self._measure_phases(run, "run")
        try:
            run = self._save(run, phase="fetching", exit_code=status.exit_code, seconds=seconds)
            with self._recorded(run):
                self._fetch(job_id, status)
        except KeyboardInterrupt:
            again = f"`invoke fetch --job {run.id}` goes on"
            raise Interrupted(f"interrupted; {run.handle} still has its reports", again) from None
        return run

    def _fetch(self, job_id: str, status: JobStatus) -> None:
        """Fetch the reports. A failure is added to the job's own error if the job failed."""
        try:
            process.drive(self.launcher.fetch(job_id, self.directory))
        except ReportError as error:
            failure = make_job_failure(status, self.directory)
            if failure is None:
                raise
            raise JobError(f"{failure.what}; {error.what}", error.hint) from error

    def _record_result(self, job_id: str, run: RunRecord, status: JobStatus) -> RunRecord:
        """Validate the reports and record the result. The job's own error comes first."""
        if job_note.is_stopped(self.directory):
            self._record_stop(job_id, run)
        failure = make_job_failure(status, self.directory)
        # Reports of failed jobs are kept but not checked for events.
        run, trouble = self._read(job_id, run, () if failure else run.kinds)
        cancelled = status.state is JobState.CANCELLED
        if failure and trouble and (cancelled or report.has_recordings(self.directory)):
            failure = JobError(f"{failure.what}; {trouble.what}", failure.hint)
        failure = failure or trouble
        phase = "cancelled" if cancelled else "failed" if failure else "done"
        seconds = self._measure_phases(run, "fetch and validate")
        run = self._save(run, phase=phase, error=str(failure or ""), seconds=seconds)
        if not isinstance(failure, ReportError):
            run = self._clean_up(job_id, run)
        if failure:
            raise failure
        return run

    def _record_stop(self, job_id: str, run: RunRecord) -> NoReturn:
        """Record a job that the user ended. Raises Interrupted, or Stopped after `stop`."""
        run, trouble = self._read(job_id, run, ())
        error = f"{STOPPED}; {trouble}" if trouble else ""
        run = self._clean_up(job_id, self._save(run, phase="stopped", error=error))
        kind = Interrupted if self._is_interrupted else Stopped
        file_names = ", ".join(facts.file for facts in run.reports) or "no report"
        raise kind(error or f"{STOPPED}; {self.directory} holds {file_names}")

    def _stop(self, job_id: str, run: RunRecord) -> JobStatus:
        """Stop the job so that nsys completes its reports, and wait for its end."""
        self.progress.say("stopping the job so that nsys finalises its reports; Ctrl-C leaves it")
        self._is_interrupted = True
        job_note.mark_stopped(self.directory)
        try:
            process.drive(self.launcher.stop(job_id))
            return self._wait(job_id, run, until=time.monotonic() + FINALISE_S)
        except KeyboardInterrupt:
            raise make_abandoned_error(run) from None

    def _clean_up(self, job_id: str, run: RunRecord) -> RunRecord:
        if self.keep:
            return run
        self.progress.show(f"cleaning up {run.handle}")  # pods may take their grace period, minutes
        process.drive(self.launcher.cleanup(job_id))
        return self._save(run, cleaned=True)

    def _wait(self, job_id: str, run: RunRecord, until: float = float("inf")) -> JobStatus:
        """Follow the job to its end and write its output to output.log."""
        log = output_log.OutputLog(self.directory / OUTPUT_FILE, lambda: self._list_secrets(job_id))
        status = watch_job(self.launcher, job_id, run, log, self.progress, until)
        log.complete(self.launcher.logs(job_id, follow=False))
        return status

    def _list_secrets(self, job_id: str) -> tuple[str, ...]:
        """Return what output.log must not show. The job is asked for its part once."""
        if not self._has_all_secrets:
            self.secrets += output_log.find_secrets(self.launcher, job_id, self.progress)
            self._has_all_secrets = True
        return self.secrets

    def _read(
        self, job_id: str, run: RunRecord, kinds: Sequence[str]
    ) -> tuple[RunRecord, ReportError | None]:
        """Return the run with its reports' facts, and the error of the first bad report or None."""
        if run.command and not run.ranks:
            return run, None
        self.progress.show("reading reports")
        files.remove_drafts(self.directory)
        reports = report.find_reports(self.directory)
        facts, trouble = [], None
        for fetched_report in reports:
            try:
                export_fetched(self.launcher, job_id, fetched_report, self.nsys)
                facts.append(report.summarise_report(fetched_report))
            except ReportError as error:
                trouble = trouble or error
        run = self._save(run, reports=tuple(facts))
        if trouble is None:
            trouble = find_trouble(run, reports, kinds, self.directory)
        return run, trouble

    def _measure_phases(self, run: RunRecord, phase: str) -> dict[str, float]:
        """Return the durations of the phases so far, including the one that just ended."""
        before, self._since = self._since, time.monotonic()
        return {**run.seconds, phase: round(self._since - before, 3)}

    def _save(self, run: RunRecord, **changes: object) -> RunRecord:
        run = dataclasses.replace(run, **changes)  # type: ignore[arg-type]
        record.save_run(run, self.directory)
        return run

    @contextlib.contextmanager
    def _followed(self, run: RunRecord) -> Iterator[None]:
        """Stop following when the body fails. SIGHUP leaves the record and the note as they are."""
        try:
            yield
        except signals.HungUp:
            again = f"`invoke fetch --job {run.id}` goes on"
            raise Interrupted(f"the terminal is gone; {run.id} is left as it is", again) from None
        except OSError as error:
            self.detach()
            if error.errno not in errors.FULL_DISK:
                raise
            what = f"{self.directory}: {error.strerror}; {run.id} is left as it is"
            raise ToolError(what, f"Make room; `invoke fetch --job {run.id}` goes on") from error
        except BaseException:
            self.detach()
            raise

    @contextlib.contextmanager
    def _recorded(self, run: RunRecord) -> Iterator[None]:
        """Write a GpuProfileError of the body into run.json and raise it again."""
        try:
            yield
        except GpuProfileError as error:
            if not isinstance(error, (Interrupted, EngineAwayError)):
                no_job = isinstance(error, NameTakenError)  # the handle is that of another run
                self._save(run, phase="failed", error=str(error), cleaned=no_job)
            raise
