"""Jobs of this machine, without Docker. Their directory is the run directory itself."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from gpu_profile import nsys
from gpu_profile.command import Command, Steps
from gpu_profile.launchers import jobdir
from gpu_profile.launchers.base import JobStatus, NsysPlan, asked, nameless
from gpu_profile.settings import Settings
from gpu_profile.spec import Job, LauncherName


@dataclass(frozen=True, kw_only=True)
class HostLauncher:
    """The id is the job's directory. No command here needs a shell: Windows is a host too."""

    name: ClassVar[LauncherName] = "host"
    report_dir: Path
    nsys: str = ""
    workdir: str = ""
    agent: jobdir.Agent = field(default_factory=lambda: jobdir.Agent(python=sys.executable))

    @classmethod
    def from_settings(cls, settings: Settings) -> "HostLauncher":
        return cls(
            report_dir=settings.report_dir.absolute(),
            nsys=settings.nsys,
            workdir=settings.ssh_workdir,
        )

    def gpus(self) -> Steps[int | None]:
        result = yield self.agent.call("machine_facts.py", "--gpus")
        return int(jobdir.answer(result, "counting GPUs"))

    def facts(self) -> Steps[Mapping[str, Any]]:
        question = self.agent.call("machine_facts.py", f"--directory={self.report_dir}")
        return jobdir.facts((yield question), "looking at this machine")

    def copies(self) -> Steps[Mapping[str, Any]]:
        return jobdir.facts((yield self._nsys("--json")), "looking for nsys")

    def identity(self) -> Steps[str]:
        return nameless()

    def probe(self, job: Job) -> Steps[str]:
        return asked(self._nsys("profile", "--help"))

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        directory = str(self.report_dir / job.name)
        spec = jobdir.spec(job, plan, directory, cwd=self.workdir, nsys=self.nsys, env=False)
        start = self.agent.call("job.py", "start", directory, stdin=spec)
        result = yield replace(start, env=job.env, secrets=frozenset(job.env))
        jobdir.checked(result, f"starting {job.name}")
        return directory

    def status(self, job_id: str) -> Steps[JobStatus]:
        return jobdir.parse_status((yield self.agent.call("job.py", "status", job_id)))

    def logs(self, job_id: str, *, follow: bool) -> Command:
        return self.agent.call("job.py", "logs", job_id, *(["--follow"] if follow else []))

    def stop(self, job_id: str) -> Steps[None]:
        jobdir.checked((yield self.agent.call("job.py", "stop", job_id)), f"stopping {job_id}")

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        copy = self.agent.call("job.py", "copy", job_id, str(to))
        jobdir.checked((yield copy), f"copying the reports from {job_id}")

    def export(self, job_id: str, report: Path) -> Command | None:
        return self._nsys(*nsys.export_command((), report).argv)

    def cleanup(self, job_id: str) -> Steps[None]:
        """The directory is the run's, and stays."""
        yield from ()

    def _nsys(self, *argv: str) -> Command:
        named = (f"--nsys={self.nsys}",) if self.nsys else ()
        return self.agent.call("find_nsys.py", *named, *argv)
