"""Launcher `host`: jobs of this machine without Docker, in their run directories."""

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from gpu_profile.command import Command, Steps
from gpu_profile.declared.ssh_settings import SshSettings
from gpu_profile.engine.carried_directory import name_cache
from gpu_profile.job import Job, NsysPlan
from gpu_profile.job_status import JobStatus
from gpu_profile.launchers.agent import job_directory, windows
from gpu_profile.launchers.one_host import OneHost, name_nsys
from gpu_profile.nsys.recorder import Window, WindowRequest
from gpu_profile.remote_host import RemoteHost
from gpu_profile.settings.settings import Settings


@dataclass(frozen=True, kw_only=True)
class HostLauncher(OneHost):
    """Runs a job below Container-Root/agent/job.py. Its id is the job's directory.

    No command needs a shell, so that it works on Windows too.
    """

    name: ClassVar[str] = "host"
    report_dir: Path
    workdir: str = ""

    @classmethod
    def from_settings(cls, settings: Settings) -> "HostLauncher":
        return cls(
            report_dir=settings.report_dir.absolute(),
            nsys=settings.nsys,
            carrier_image=settings.carrier_ref,
            workdir=settings.of(SshSettings).workdir,
        )

    @property
    def runs(self) -> str:
        return str(self.report_dir)

    @property
    def carried_below(self) -> str:
        return name_cache()

    def host(self) -> RemoteHost | None:
        return RemoteHost()

    def script(self, name: str, *argv: str) -> Command:
        return self.agent.call(name, *argv)

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        directory = str(self.report_dir / job.name)
        spec = job_directory.render_spec(
            job, plan, directory, cwd=self.workdir, nsys=name_nsys(job, self.nsys), env=False
        )
        start = self.agent.call("job.py", "start", directory, stdin=spec)
        result = yield replace(start, env=job.env, secrets=frozenset(job.env))
        job_directory.check_agent_result(result, f"starting {job.name}")
        return directory

    def status(self, job_id: str) -> Steps[JobStatus]:
        return job_directory.parse_status((yield self.agent.call("job.py", "status", job_id)))

    def logs(self, job_id: str, *, follow: bool) -> Command:
        words = ("logs", job_id, "--follow") if follow else ("logs", job_id)
        return self.agent.call("job.py", *words)

    def stop(self, job_id: str) -> Steps[None]:
        job_directory.check_agent_result(
            (yield self.agent.call("job.py", "stop", job_id)), f"stopping {job_id}"
        )

    def record(self, job_id: str, request: WindowRequest) -> Steps[Window]:
        call = functools.partial(self.agent.call, windows.SCRIPT)
        return windows.record_window(call, job_id, request)

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        copy = self.agent.call("job.py", "copy", job_id, str(to))
        job_directory.check_agent_result((yield copy), f"copying the reports from {job_id}")

    def export(self, job_id: str, report: Path, output: Path) -> Command | None:
        """Return the command that exports with the nsys that recorded the report."""
        export = self.agent.call("job.py", "export", job_id, report.name, *self.nsys_flags())
        return replace(export, stdout_file=output)

    def cleanup(self, job_id: str) -> Steps[None]:
        """Remove nothing: the job's directory is the run directory."""
        yield from ()
