"""Launcher `slurm`: jobs of a Slurm cluster, whose commands are here or on a log-in node."""

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from gpu_profile.command import Command, Result, Steps
from gpu_profile.declared.check import Check
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.declared.slurm_settings import SlurmSettings
from gpu_profile.doctor.host import check_host
from gpu_profile.engine.carried_directory import bring_directory
from gpu_profile.errors import GpuProfileError, SettingsError
from gpu_profile.job import TOOLS, Job, NsysPlan, Tool
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.launcher import Carrying, ImageFrom
from gpu_profile.launchers.agent import job_directory, windows
from gpu_profile.launchers.agent.scripts import Scripted
from gpu_profile.launchers.agent.transfer import Transfer
from gpu_profile.launchers.slurm import state
from gpu_profile.launchers.slurm.commands import SlurmCluster, find_user
from gpu_profile.launchers.slurm.container import Container
from gpu_profile.launchers.slurm.job_link import JobLink
from gpu_profile.launchers.slurm.user_script import SCRIPT, UserScript
from gpu_profile.manifest.batch_script import BatchScript
from gpu_profile.nsys.help_answer import read_answer
from gpu_profile.nsys.recorder import Window, WindowRequest
from gpu_profile.settings.settings import Settings

_OLDER = ".gpu-profile-slurm"
_SBATCH = "job.sbatch"
_CARRIER = "carrier"
"""The link in a job's directory to what was carried to the cluster."""
_CARRIED = f'"$d/{_CARRIER}/carrier/bin"'


@dataclass(frozen=True, kw_only=True)
class SlurmLauncher(Scripted):
    """Runs a job by sbatch. Its id is Slurm's job number.

    The job's directory lies in `directory`, which the nodes share. A symbolic link named after the
    number points to it, because Slurm forgets a job minutes after its end (MinJobAge).
    """

    name: ClassVar[str] = "slurm"
    one_node: ClassVar[bool] = False
    drills: ClassVar[bool] = True
    carrying: ClassVar[Carrying] = Carrying.BIND_MOUNT
    tools: ClassVar[frozenset[Tool]] = frozenset(TOOLS)
    one_task_per_gpu: ClassVar[bool] = True
    possible_images: ClassVar[frozenset[ImageFrom]] = frozenset(
        {ImageFrom.NOWHERE, ImageFrom.SETTINGS}
    )
    directory: str
    older: str
    """The directory of runs from versions in which all users shared one."""
    report_dir: Path
    carrier_image: ImageRef | None = None
    """The image of ours on this machine's engine whose nsys --carry brings."""
    cluster: SlurmCluster = field(default_factory=SlurmCluster)
    script_of_user: UserScript | None = None
    """The user's own sbatch script, which a job runs in place of a command."""
    rsync: bool = True
    agent: job_directory.Agent = field(
        default_factory=lambda: job_directory.Agent(python=sys.executable)
    )

    @classmethod
    def from_settings(cls, settings: Settings) -> "SlurmLauncher":
        report_dir = settings.report_dir.absolute()
        slurm = settings.of(SlurmSettings)
        shared = slurm.dir.rstrip("/") or str(report_dir)
        if not shared.startswith("/"):
            raise SettingsError(f"SLURM_DIR {shared} is not absolute", "Give its absolute path")
        return cls(
            directory=f"{shared}/{_OLDER}-{find_user(slurm.login)}",
            older=f"{shared}/{_OLDER}",
            report_dir=report_dir,
            carrier_image=settings.carrier_ref,
            cluster=SlurmCluster.from_settings(settings, shared),
            rsync=shutil.which("rsync") is not None,
        )

    @classmethod
    def with_image(cls, settings: Settings, image: str) -> Settings:
        """Return the settings with SLURM_IMAGE, which may be a file on the cluster: no ImageRef."""
        return settings.with_launcher_value("SLURM_IMAGE", image)

    def doctor(self) -> Steps[tuple[Check, ...]]:
        return (yield from check_host(self))

    @property
    def images(self) -> ImageFrom:
        image = self.cluster.script.container.image
        return ImageFrom.SETTINGS if image else ImageFrom.NOWHERE

    def with_script(self, script: BatchScript) -> "SlurmLauncher":
        """Return the launcher that runs a user's own script. Raises SettingsError for some.

        SLURM_IMAGE does not count: the script says itself what runs in a container.
        """
        script.check()
        ours = replace(self.cluster.script, container=Container())
        user = UserScript(script=script, nsys=ours.nsys, sbatch_args=ours.sbatch_args)
        return replace(self, script_of_user=user, cluster=replace(self.cluster, script=ours))

    def compare_script(self, job: Job, plan: NsysPlan) -> str:
        """Return what the script for sbatch adds to the user's."""
        directory = f"{self.directory}/{job.name}"
        return self.script_of_user.compare(job, plan, directory) if self.script_of_user else ""

    def gpus(self) -> Steps[int | None]:
        count = self.script_of_user.script.count_gpus() if self.script_of_user else None
        return (yield from self.cluster.gpus()) if count is None else count

    def facts(self) -> Steps[Mapping[str, Any]]:
        """Return machine facts from a step that asks for a GPU if the nodes have any.

        A step without a GPU may not see those of its node.
        """
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
        """Return the command that runs a script on a node; a log-in node may differ."""
        words = ("python3", "-", *argv)
        return self.cluster.on_a_node(*words, stdin=self.agent.text(name))

    def check_result(self, result: Result) -> Result:
        return self.cluster.check_result(result)

    def carry(self, job: Job, *, wanted: bool) -> Steps[Job]:
        """Return the job with nsys in a directory that the nodes share, if wanted.

        A container of the job sees it there too. A node says whether nsys works in the image.
        """
        if not wanted or self.carrier_image is None:
            return job
        where = (self.cluster.place, self.agent, self.carrier_image, self.directory)
        return replace(job, carrier=(yield from bring_directory(*where, shared=True)))

    def probe(self, job: Job) -> Steps[str]:
        """Return nsys' help text from the submitting machine, otherwise from a node.

        With an image, or if the submitting machine has no nsys, a node is asked.
        """
        if job.carrier:
            ask = (job.carrier.python, "-E", job.carrier.checker, "help", job.carrier.directory)
            return read_answer(self.check_result((yield self.cluster.on_a_node(*ask))))
        if not self.cluster.script.container.image:
            words = ("python3", "-", *self.nsys_flags(), "profile", "--help")
            help_result = yield self.cluster.with_modules(
                *words, stdin=self.agent.text("find_nsys.py")
            )
            if help_result.returncode == 0:
                return help_result.stdout
        return (yield from super().probe(job))

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        place, directory = self.cluster.place, f"{self.directory}/{job.name}"
        archive = self.report_dir / job.name / ".sent.tar"
        files = self._render_files(job, plan, directory)
        yield from self._make_transfer().send_agent(directory, archive, shared=True)
        yield self.agent.call("job.py", "discard", str(archive))
        if job.carrier:
            yield place.run("ln", "-s", "--", job.carrier.directory, f"{directory}/{_CARRIER}")
        for name, text in files.items():
            path = f"{directory}/{name}"
            write = f"umask 077 && cat > {shlex.quote(path)} && chmod 0700 {shlex.quote(path)}"
            place.checked((yield place.shell(write, stdin=text)), f"writing {path}")
        # `invoke logs` of a waiting job shows empty output, not an error.
        yield place.run("touch", "--", f"{directory}/output.log")
        try:
            job_id = yield from self.cluster.submit(f"{directory}/{_SBATCH}", job.env)
        except GpuProfileError:
            yield place.run("rm", "-rf", "--", directory)
            raise
        # The script makes this link too when it starts. A waiting job needs it for `invoke logs`.
        yield place.run("ln", "-sfn", "--", job.name, f"{self.directory}/{job_id or 'NUMBER'}")
        return job_id

    def _render_files(self, job: Job, plan: NsysPlan, directory: str) -> Mapping[str, str]:
        """Return the texts of the job's own files: the script for sbatch, and the user's."""
        user = self.script_of_user
        if user is None:
            return {_SBATCH: self.cluster.script.render(job, plan, directory)}
        return {SCRIPT: user.script.text, _SBATCH: user.render(job, plan, directory)}

    def status(self, job_id: str) -> Steps[JobStatus]:
        """Return Slurm's status, corrected by the exit code that our script wrote last.

        If Slurm has forgotten the job, the script's line alone decides.
        """
        status = yield from self.cluster.status(job_id)
        if status and (not status.state.is_finished or status.state is JobState.SUCCEEDED):
            return status
        ended = yield self._link.call(job_id, 'cat "$d/ended"')
        if status:
            return state.apply_end_line(status, ended.stdout)
        if ended.returncode:
            raise SettingsError(
                f"Slurm knows no job {job_id}",
                f"No job of this number ended below {self.directory}",
            )
        return state.from_ended(ended.stdout)

    def require_own(self, job_id: str) -> Steps[None]:
        """Raise SettingsError unless the job has our comment in Slurm or a directory of ours."""
        yield from self._link.require_own(job_id)

    def logs(self, job_id: str, *, follow: bool) -> Command:
        show = "tail -n +1 -F" if follow else "cat"
        return self._link.call(job_id, f'exec {show} "$d/output.log"')

    def stop(self, job_id: str) -> Steps[None]:
        """Stop a job that has our comment in Slurm, or whose directory is ours."""
        yield from self.require_own(job_id)
        status = yield from self.status(job_id)
        if not status.state.is_finished:
            yield from self.cluster.stop(job_id, status.state)
        if status.state is JobState.PENDING:  # the script never ran, so it cannot write this line
            yield self._link.call(job_id, 'echo stopped > "$d/ended"')

    def record(self, job_id: str, request: WindowRequest) -> Steps[Window]:
        """Record a window. The agents of all nodes see the job's directory."""

        def call(verb: str, _directory: str, *more: str) -> Command:
            script = f'exec python3 "$d/{windows.SCRIPT}" {verb} "$d" {shlex.join(more)}'
            return self._link.call(job_id, script)

        return windows.record_window(call, "", request)

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        again = f"`invoke fetch --job slurm://{job_id}` goes on"
        directory = yield from self._link.find_directory(job_id)
        yield from self._make_transfer().fetch(directory, to, again)

    def export(self, job_id: str, report: Path, output: Path) -> Command | None:
        words = shlex.join(("export", report.name, *self.nsys_flags()))
        verb, _, more = words.partition(" ")
        call = f'"$d/job.py" {verb} "$d" {more}'
        carried = f"exec {_CARRIED}/python3 -E {call} --nsys={_CARRIED}/nsys"
        script = f'{self._link.format_search(job_id)}test ! -e "$d/{_CARRIER}" || {carried}; '
        script += f"exec python3 {call}"
        run = self.cluster.beside_nsys("sh", "-c", script)
        return replace(run, stdout_file=output)

    def cleanup(self, job_id: str) -> Steps[None]:
        """Remove the job's directory and the link to it."""
        yield from self._link.remove(job_id)

    @property
    def _link(self) -> JobLink:
        return JobLink(place=self.cluster.place, directory=self.directory, older=self.older)

    def _make_transfer(self) -> Transfer:
        return Transfer(place=self.cluster.place, agent=self.agent, rsync=self.rsync)
