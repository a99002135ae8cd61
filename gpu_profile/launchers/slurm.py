"""Jobs of a Slurm cluster, from a machine that has its commands or over ssh to one."""

import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from gpu_profile.command import Command, Result, Steps, command
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.launchers import jobdir, slurm_state
from gpu_profile.launchers.base import JobState, JobStatus, NsysPlan, asked, nameless
from gpu_profile.launchers.remote import Place
from gpu_profile.launchers.slurm_script import Script
from gpu_profile.settings import Settings
from gpu_profile.spec import Job, LauncherName


@dataclass(frozen=True, kw_only=True)
class SlurmLauncher:
    """The id is Slurm's. The job's directory lies in `directory`, which the nodes share; a link
    of the job's number leads to it, for Slurm forgets jobs sooner than people do."""

    name: ClassVar[LauncherName] = "slurm"
    directory: str
    report_dir: Path
    script: Script = field(default_factory=Script)
    place: Place = field(default_factory=Place)
    rsync: bool = True
    agent: jobdir.Agent = field(default_factory=lambda: jobdir.Agent(python=sys.executable))

    @classmethod
    def from_settings(cls, settings: Settings) -> "SlurmLauncher":
        report_dir = settings.report_dir.absolute()
        shared = settings.slurm_dir.rstrip("/") or str(report_dir)
        if not shared.startswith("/"):
            raise SettingsError(f"SLURM_DIR {shared} is not absolute", "The nodes need it so")
        login = Place(host=settings.slurm_login, options=tuple(shlex.split(settings.ssh_args)))
        return cls(
            directory=f"{shared}/.gpu-profile-slurm",
            report_dir=report_dir,
            script=Script.from_settings(settings),
            place=login,
            rsync=shutil.which("rsync") is not None,
        )

    def gpus(self) -> Steps[int | None]:
        """The most that a node of the partition has, by its generic resources."""
        partition = [f"--partition={self.script.partition}"] if self.script.partition else []
        result = yield self.place.run("sinfo", "--noheader", "--format=%G", *partition)
        self.place.checked(result, "asking Slurm for GPUs")
        counts = re.findall(r"\bgpu:(?:[^:,()]+:)?(\d+)", result.stdout)
        return max(map(int, counts), default=0)

    def facts(self) -> Steps[Mapping[str, Any]]:
        """Of a node, by a short step of one task, as are the copies of nsys."""
        return (yield from self._on_node("machine_facts.py", f"--directory={self.directory}"))

    def copies(self) -> Steps[Mapping[str, Any]]:
        named = (f"--nsys={self.script.nsys}",) if self.script.nsys else ()
        return (yield from self._on_node("find_nsys.py", *named, "--json"))

    def _on_node(self, script: str, *argv: str) -> Steps[Mapping[str, Any]]:
        text = (self.agent.root / script).read_text(encoding="utf-8")
        step = self.script.on_a_node(self.directory)
        result = yield self._with_modules(*step, "python3", "-", *argv, stdin=text)
        return jobdir.facts(self.place.checked(result, "asking a node"), "asking a node")

    def identity(self) -> Steps[str]:
        return nameless()

    def probe(self, job: Job) -> Steps[str]:
        """On the machine that submits; where it has no nsys, or the job an image, on a node."""
        text = (self.agent.root / "find_nsys.py").read_text(encoding="utf-8")
        named = (f"--nsys={self.script.nsys}",) if self.script.nsys else ()
        ask = ("python3", "-", *named, "profile", "--help")
        if not self.script.container.image:
            found = yield self._with_modules(*ask, stdin=text)
            if found.returncode == 0:
                return found.stdout
        return (
            yield from asked(
                self._with_modules(*self.script.on_a_node(self.directory), *ask, stdin=text)
            )
        )

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        directory = f"{self.directory}/{job.name}"
        archive = self.report_dir / job.name / ".sent.tar"
        script = self.script.render(job, plan, directory)
        yield from self.place.place_agent(self.agent, directory, archive)
        yield self.agent.call("job.py", "discard", str(archive))
        path = f"{directory}/job.sbatch"
        keep = self.place.shell(f"cat > {shlex.quote(path)}", stdin=script)
        self.place.checked((yield keep), f"writing {path}")
        submitted = yield self._sbatch(path, job)
        if submitted.returncode:
            yield self.place.run("rm", "-rf", "--", directory)
            raise self._refusal(submitted)
        return submitted.stdout.strip().partition(";")[0]

    def status(self, job_id: str) -> Steps[JobStatus]:
        """By scontrol, while the controller remembers; by accounting; by what the job wrote."""
        asked = yield self.place.run("scontrol", "show", "job", _number(job_id), "--oneliner")
        if self.place.away(asked) or "Unable to contact" in asked.stderr:
            return JobStatus(state=JobState.UNKNOWN, reason=asked.said)
        status = slurm_state.parse_scontrol(asked.stdout) if asked.returncode == 0 else None
        if status is None:
            rows = ("--noheader", "--parsable2", "--allocations", f"--jobs={job_id}")
            form = f"--format={slurm_state.SACCT_FORMAT}"
            accounted = yield self.place.run("sacct", *rows, form)
            status = slurm_state.parse_sacct(accounted.stdout)
        if status and (not status.state.finished or status.state is JobState.SUCCEEDED):
            return status
        ended = yield self.place.run("cat", f"{self._of(job_id)}/ended")
        if status is None and ended.returncode:
            raise SettingsError(
                f"Slurm knows no job {job_id}", f"Its reports were in {self.directory}"
            )
        return (
            slurm_state.judged(status, ended.stdout)
            if status
            else slurm_state.from_ended(ended.stdout)
        )

    def logs(self, job_id: str, *, follow: bool) -> Command:
        show = ("tail", "-n", "+1", "-F") if follow else ("cat",)
        return self.place.run(*show, f"{self._of(job_id)}/output.log")

    def stop(self, job_id: str) -> Steps[None]:
        """A waiting job leaves the queue; a running one ends its step, so that nsys finalises."""
        status = yield from self.status(job_id)
        if status.state is JobState.PENDING:
            cancel = self.place.run("scancel", job_id)
        elif not status.state.finished:
            cancel = self.place.run("scancel", "--batch", "--signal=USR2", job_id)
        else:
            return
        self.place.checked((yield cancel), f"stopping slurm://{job_id}")

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        again = f"`invoke fetch --job slurm://{job_id}` goes on"
        yield from self.place.fetch(self._of(job_id), to, again, agent=self.agent, rsync=self.rsync)

    def export(self, job_id: str, report: Path) -> Command | None:
        directory = self._of(job_id)
        named = (f"--nsys={self.script.nsys}",) if self.script.nsys else ()
        words = ("python3", f"{directory}/job.py", "export", directory, report.name, *named)
        where = self.script.on_a_node(self.directory) if self.script.container.image else ()
        stream = self._with_modules(*where, *words)
        return replace(stream, stdout_file=report.with_suffix(".sqlite"))

    def cleanup(self, job_id: str) -> Steps[None]:
        """The job's own directory, and the link that leads to it."""
        link = shlex.quote(self._of(job_id))
        remove = (
            f'run=$(readlink -f {link}) && test -e "$run/job.sbatch" && rm -rf -- "$run" {link}'
        )
        yield self.place.shell(f"test ! -L {link} || {{ {remove}; }}")

    def _of(self, job_id: str) -> str:
        return f"{self.directory}/{_number(job_id)}"

    def _with_modules(self, *argv: str, stdin: str = "") -> Command:
        """Only a log-in shell knows `module`."""
        modules = self.script.modules
        if not modules:
            return self.place.run(*argv, stdin=stdin)
        script = f"module load {shlex.join(modules)} >&2 && exec {shlex.join(argv)}"
        return self.place.run("bash", "-lc", script, stdin=stdin)

    def _sbatch(self, path: str, job: Job) -> Command:
        """The job's variables reach it through sbatch's own environment, and no file or argv."""
        if not self.place.host:
            sbatch = command("sbatch", "--parsable", path)
            return replace(sbatch, env=job.env, secrets=frozenset(job.env))
        exports = [f"export {n}={shlex.quote(v)}" for n, v in sorted(job.env.items())]
        lines = [*exports, f"exec sbatch --parsable {shlex.quote(path)}", ""]
        return self.place.shell("bash -l", stdin="\n".join(lines))

    def _refusal(self, result: Result) -> Exception:
        """sbatch's own words, which may end with an advice; otherwise ssh's."""
        said = [line for line in result.stderr.splitlines() if line.startswith("sbatch: ")]
        if not said and self.place.host:
            return ToolError(f"submitting: {result.said}", self.place.hint(result))
        line = said[-1] if said else result.said
        return slurm_state.refusal(line.removeprefix("sbatch: ").removeprefix("error: "))


def _number(job_id: str) -> str:
    if not re.fullmatch(r"\d+(?:[_+]\d+)?", job_id):
        raise SettingsError(f"slurm://{job_id} is not a job number", "Use slurm://1234")
    return job_id
