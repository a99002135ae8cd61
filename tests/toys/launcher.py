"""Launcher `toy`: a job below a shell of this machine, run to its end."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gpu_profile.command import Command, Steps, make_command
from gpu_profile.declared.check import Check
from gpu_profile.errors import JobError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.launcher import ImageFrom, LauncherDefaults
from gpu_profile.nsys.export import export_command
from gpu_profile.nsys.help_answer import ask_command
from gpu_profile.settings.settings import Settings

_RUN = 'd=$1; shift; mkdir -p "$d"; "$@" >"$d/output.log" 2>&1; echo $? >"$d/ended"'


@dataclass(frozen=True, kw_only=True)
class ToyLauncher(LauncherDefaults):
    """Runs a job below `sh -c`. Its id is the job's directory."""

    name: ClassVar[str] = "toy"
    images: ClassVar[ImageFrom] = ImageFrom.NOWHERE
    possible_images: ClassVar[frozenset[ImageFrom]] = frozenset({ImageFrom.NOWHERE})
    one_node: ClassVar[bool] = True
    shell: str
    nsys: str
    folder: Path

    @classmethod
    def from_settings(cls, settings: Settings) -> "ToyLauncher":
        shell = str(settings.launcher_values["TOY_SHELL"])
        return cls(shell=shell, nsys=settings.nsys, folder=settings.report_dir.absolute() / "toy")

    def _run(self, script: str, *words: str) -> Command:
        return make_command(self.shell, "-c", script, self.shell, *words)

    def doctor(self) -> Steps[tuple[Check, ...]]:
        result = yield self._run("echo it runs")
        return (Check(name="shell", ok=result.returncode == 0, result=result.stdout.strip()),)

    def gpus(self) -> Steps[int | None]:
        yield from ()
        return 0

    def probe(self, job: Job) -> Steps[str]:
        return ask_command(make_command(self.nsys, "profile", "--help"))

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        place = f"{self.folder}/{job.name}"
        words = (self.nsys, "profile", *plan.options, f"--output={place}/rank0.toy", "--")
        yield self._run(_RUN, place, *words, *job.command)
        return place

    def status(self, job_id: str) -> Steps[JobStatus]:
        ended = yield self._run('cat "$1/ended"', job_id)
        if ended.returncode:
            raise JobError(f"there is no job toy://{job_id}", "`invoke reports` lists runs")
        code = int(ended.stdout)
        state = JobState.FAILED if code else JobState.SUCCEEDED
        return JobStatus(state=state, exit_code=code)

    def logs(self, job_id: str, *, follow: bool) -> Command:
        return self._run('cat "$1/output.log"', job_id)

    def stop(self, job_id: str) -> Steps[None]:
        yield from self.status(job_id)

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        yield self._run('cp "$1"/rank* "$2"', job_id, str(to))

    def export(self, job_id: str, report: Path, output: Path) -> Command | None:
        return export_command((self.nsys,), report, output)

    def cleanup(self, job_id: str) -> Steps[None]:
        yield self._run('rm -r "$1"', job_id)
