"""Jobs of a Slurm cluster, from a machine that has its commands or over ssh to one."""

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import GpuProfileError, SettingsError
from gpu_profile.job import Job, LauncherName, NsysPlan
from gpu_profile.launcher import ImageFrom, JobState, JobStatus
from gpu_profile.launchers.agent import job_directory as jobdir
from gpu_profile.launchers.agent.scripts import Scripted
from gpu_profile.launchers.agent.transfer import Transfer
from gpu_profile.launchers.slurm import state as slurm_state
from gpu_profile.launchers.slurm.commands import Cluster, number
from gpu_profile.settings.settings import Settings


@dataclass(frozen=True, kw_only=True)
class SlurmLauncher(Scripted):
    """The id is Slurm's. The job's directory lies in `directory`, which the nodes share; a link
    of the job's number leads to it, for Slurm forgets jobs sooner than people do."""

    name: ClassVar[LauncherName] = "slurm"
    one_node: ClassVar[bool] = False
    directory: str
    report_dir: Path
    cluster: Cluster = field(default_factory=Cluster)
    rsync: bool = True
    agent: jobdir.Agent = field(default_factory=lambda: jobdir.Agent(python=sys.executable))

    @classmethod
    def from_settings(cls, settings: Settings) -> "SlurmLauncher":
        report_dir = settings.report_dir.absolute()
        shared = settings.slurm_dir.rstrip("/") or str(report_dir)
        if not shared.startswith("/"):
            raise SettingsError(f"SLURM_DIR {shared} is not absolute", "The nodes need it so")
        return cls(
            directory=f"{shared}/.gpu-profile-slurm",
            report_dir=report_dir,
            cluster=Cluster.from_settings(settings, shared),
            rsync=shutil.which("rsync") is not None,
        )

    @property
    def images(self) -> ImageFrom:
        image = self.cluster.script.container.image
        return ImageFrom.SETTINGS if image else ImageFrom.NOWHERE

    def gpus(self) -> Steps[int | None]:
        return (yield from self.cluster.gpus())

    def facts(self) -> Steps[Mapping[str, Any]]:
        """By a step with a GPU where there are any: without one, a node may show it none."""
        some = yield from self.cluster.gpus()
        looking = replace(self, cluster=replace(self.cluster, gpu=bool(some)))
        return (yield from super(SlurmLauncher, looking).facts())

    @property
    def runs(self) -> str:
        return self.directory

    @property
    def named_nsys(self) -> str:
        return "" if self.cluster.script.container.image else self.cluster.script.nsys

    def script(self, name: str, *argv: str) -> Command:
        """On a node, for a log-in node may differ."""
        words = ("python3", "-", *argv)
        return self.cluster.on_a_node(*words, stdin=self.agent.text(name))

    def heard(self, result: Result) -> Result:
        return self.cluster.heard(result)

    def probe(self, job: Job) -> Steps[str]:
        """On the machine that submits; where it has no nsys, or the job an image, on a node."""
        if not self.cluster.script.container.image:
            words = ("python3", "-", *self.named(), "profile", "--help")
            found = yield self.cluster.with_modules(*words, stdin=self.agent.text("find_nsys.py"))
            if found.returncode == 0:
                return found.stdout
        return (yield from super().probe(job))

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        place, directory = self.cluster.place, f"{self.directory}/{job.name}"
        archive = self.report_dir / job.name / ".sent.tar"
        script = self.cluster.script.render(job, plan, directory)
        yield from self._transfer().send_agent(directory, archive)
        yield self.agent.call("job.py", "discard", str(archive))
        path, output = f"{directory}/job.sbatch", f"{directory}/output.log"
        # A waiting job's output is empty, and not missing.
        keep = place.shell(
            f"cat > {shlex.quote(path)} && touch {shlex.quote(output)}", stdin=script
        )
        place.checked((yield keep), f"writing {path}")
        try:
            job_id = yield from self.cluster.submit(path, job.env)
        except GpuProfileError:
            yield place.run("rm", "-rf", "--", directory)
            raise
        # The script does so too, when it starts: a waiting job is to be found as well.
        yield place.run("ln", "-sfn", "--", job.name, f"{self.directory}/{job_id or 'NUMBER'}")
        return job_id

    def status(self, job_id: str) -> Steps[JobStatus]:
        """As Slurm says, in the light of what the job wrote at its end; or by that alone."""
        status = yield from self.cluster.status(job_id)
        if status and (not status.state.finished or status.state is JobState.SUCCEEDED):
            return status
        ended = yield self.cluster.place.run("cat", f"{self._of(job_id)}/ended")
        if status:
            return slurm_state.judged(status, ended.stdout)
        if ended.returncode:
            raise SettingsError(f"Slurm knows no job {job_id}", f"It was below {self.directory}")
        return slurm_state.from_ended(ended.stdout)

    def logs(self, job_id: str, *, follow: bool) -> Command:
        show = ("tail", "-n", "+1", "-F") if follow else ("cat",)
        return self.cluster.place.run(*show, f"{self._of(job_id)}/output.log")

    def stop(self, job_id: str) -> Steps[None]:
        status = yield from self.status(job_id)
        if not status.state.finished:
            yield from self.cluster.stop(job_id, status.state)
        if status.state is JobState.PENDING:  # its script will never say so
            yield self.cluster.place.shell(f"echo stopped > {shlex.quote(self._of(job_id))}/ended")

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        again = f"`invoke fetch --job slurm://{job_id}` goes on"
        yield from self._transfer().fetch(self._of(job_id), to, again)

    def export(self, job_id: str, report: Path, output: Path) -> Command | None:
        directory = self._of(job_id)
        job = f"{directory}/job.py"
        words = ("python3", job, "export", directory, report.name, *self.named())
        run = self.cluster.beside_nsys(*words)
        return replace(run, stdout_file=output)

    def cleanup(self, job_id: str) -> Steps[None]:
        """The job's own directory, and the link that leads to it."""
        link = shlex.quote(self._of(job_id))
        found = f'run=$(readlink -f {link}) && test -e "$run/job.sbatch"'
        remove = f'test ! -L {link} || {{ {found} && rm -rf -- "$run" {link}; }}'
        place = self.cluster.place
        place.checked((yield place.shell(remove)), f"removing slurm://{job_id}")

    def _of(self, job_id: str) -> str:
        return f"{self.directory}/{number(job_id)}"

    def _transfer(self) -> Transfer:
        return Transfer(place=self.cluster.place, agent=self.agent, rsync=self.rsync)
