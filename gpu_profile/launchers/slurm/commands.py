"""Slurm's commands (sinfo, sbatch, scontrol, sacct, scancel), run here or on a log-in node."""

import contextlib
import getpass
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpu_profile.command import Command, Result, Steps
from gpu_profile.declared.slurm_settings import SlurmSettings
from gpu_profile.declared.ssh_settings import SshSettings
from gpu_profile.errors import Refusal, SettingsError, ToolError, explain_refusal
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.launchers.slurm import container
from gpu_profile.launchers.slurm import state as slurm_state
from gpu_profile.launchers.slurm.sbatch import Script
from gpu_profile.remote_host import RemoteHost
from gpu_profile.settings.settings import Settings

_NO_SLURM = "Use a log-in node, or name one: --login user@address, or SLURM_LOGIN"
_NO_CLUSTER = (
    Refusal(
        "could not establish a configuration source",
        ToolError,
        "This machine belongs to no Slurm cluster: use a log-in node, or --login user@address",
    ),
    Refusal(
        "unable to contact slurm controller",
        ToolError,
        "`scontrol ping` says whether the controller is up",
    ),
)


@dataclass(frozen=True, kw_only=True)
class SlurmCluster:
    """A Slurm cluster. `script` holds the partition, account and image, also for short steps."""

    place: RemoteHost = field(default_factory=RemoteHost)
    script: Script = field(default_factory=Script)
    shared: str = "/"
    """A directory that the nodes can read too, and that containers mount."""
    gpu: bool = False
    """Whether a short step asks for a GPU."""

    @classmethod
    def from_settings(cls, settings: Settings, shared: str) -> "SlurmCluster":
        options = tuple(shlex.split(settings.of(SshSettings).args))
        host = settings.of(SlurmSettings).login
        login = RemoteHost(host=host, options=options, if_missing=_NO_SLURM)
        return cls(place=login, script=Script.from_settings(settings), shared=shared)

    def gpus(self) -> Steps[int]:
        """Return the largest number of GPUs on a node of the partition (sinfo's %G).

        sinfo prints nothing, and ends with 0, for a partition that does not exist.
        """
        partition = [f"--partition={self.script.partition}"] if self.script.partition else []
        result = yield self.place.run("sinfo", "--noheader", "--format=%G", *partition)
        if result.returncode:
            what = f"asking Slurm for GPUs: {result.last_line}"
            otherwise = ToolError(what, self.place.hint(result))
            self.place.reached(result, "asking Slurm for GPUs")
            raise explain_refusal(_NO_CLUSTER, result.stderr, what, otherwise)
        if partition and not result.stdout.strip():
            what = f"Invalid partition: Slurm shows this user no node of {self.script.partition!r}"
            raise SettingsError(what, "`sinfo` lists the partitions: --partition")
        counts = re.findall(r"\bgpu:(?:[^:,()]+:)?(\d+)", result.stdout)
        return max(map(int, counts), default=0)

    def with_modules(self, *argv: str, stdin: str = "") -> Command:
        """Return the command after `module load`.

        Only a log-in shell defines `module`.
        """
        modules = self.script.modules
        if not modules:
            return self.place.run(*argv, stdin=stdin)
        # What a module prints is no part of the answer.
        script = f"module load {shlex.join(modules)} >&2 && exec {shlex.join(argv)}"
        return self.place.run("bash", "-lc", script, stdin=stdin)

    def on_a_node(self, *argv: str, stdin: str = "") -> Command:
        """Return the command as a short srun step of one task, in the job's image if it has one."""
        step = self.script.on_a_node(self.shared, gpu=self.gpu)
        return self.with_modules(*step, *argv, stdin=stdin)

    def beside_nsys(self, *argv: str) -> Command:
        """Return the command in the job's image, or here with the modules loaded: where nsys is."""
        inside = bool(self.script.container.image)
        return self.on_a_node(*argv) if inside else self.with_modules(*argv)

    def check_result(self, result: Result) -> Result:
        """Return a step's result.

        Raises ToolError if it failed, with why its container did not start.
        """
        why = container.find_container_error(result.stderr) if result.returncode else ""
        if why and self.script.container.image:
            raise ToolError(f"asking a node: {why}", f"The image is {self.script.container.image}")
        return self.place.checked(result, "asking a node")

    def submit(self, path: str, env: Mapping[str, str]) -> Steps[str]:
        """Submit the script and return the job's number.

        Raises the error that sbatch's message means.
        """
        result = yield self._make_sbatch(path, env)
        if result.returncode:
            raise self._explain_refusal(result)
        # --parsable prints `1234`, or `1234;cluster` where there are several clusters.
        return result.stdout.strip().partition(";")[0]

    def _make_sbatch(self, path: str, env: Mapping[str, str]) -> Command:
        """Return the sbatch command.

        Job variables reach it by the environment, never by file or argv.
        """
        if not self.place.host:
            sbatch = self.place.run("sbatch", "--parsable", path)
            return replace(sbatch, env=env, secrets=frozenset(env))
        exports = [f"export {n}={shlex.quote(v)}" for n, v in sorted(env.items())]
        lines = [*exports, f"exec sbatch --parsable {shlex.quote(path)}", ""]
        return self.place.shell("bash -l", stdin="\n".join(lines))

    def _explain_refusal(self, result: Result) -> Exception:
        """Return the error for a failed sbatch: its own last message, otherwise ssh's."""
        messages = [line for line in result.stderr.splitlines() if line.startswith("sbatch: ")]
        if not messages and self.place.host:
            return ToolError(f"submitting: {result.last_line}", self.place.hint(result))
        line = messages[-1] if messages else result.last_line
        return slurm_state.make_sbatch_error(line.removeprefix("sbatch: ").removeprefix("error: "))

    def status(self, job_id: str) -> Steps[JobStatus | None]:
        """Return the job's status from scontrol, or from sacct if Slurm has forgotten it.

        None if accounting does not know the job either, or is not set up.
        """
        scontrol_result = yield self.place.run(
            "scontrol", "show", "job", parse_job_number(job_id), "--oneliner"
        )
        if self.place.away(scontrol_result) or "Unable to contact" in scontrol_result.stderr:
            return JobStatus(state=JobState.UNKNOWN, reason=scontrol_result.last_line)
        self.place.reached(scontrol_result, "asking Slurm")
        if scontrol_result.returncode == 0:
            return slurm_state.parse_scontrol(scontrol_result.stdout)
        rows = ("--noheader", "--parsable2", "--allocations", "--duplicates", f"--jobs={job_id}")
        fields = f"--format={','.join(slurm_state.SACCT_FIELDS)}"
        accounted = yield self.place.run("sacct", *rows, fields)
        return slurm_state.parse_sacct(accounted.stdout)

    def stop(self, job_id: str, state: JobState) -> Steps[None]:
        """Cancel a waiting job, or send USR2 to a running one.

        The script of a running job then ends its step, so that nsys completes its reports.
        """
        waits = state is JobState.PENDING
        how = () if waits else ("--batch", "--signal=USR2")
        cancel = yield self.place.run("scancel", *how, job_id)
        self.place.checked(cancel, f"stopping slurm://{job_id}")


def parse_job_number(job_id: str) -> str:
    """Return the number of `slurm://1234`, 1234_5 or 1234+5. Raises SettingsError for others."""
    if not re.fullmatch(r"\d+(?:[_+]\d+)?", job_id):
        raise SettingsError(f"slurm://{job_id} is not a job number", "Use slurm://1234")
    return job_id


def find_user(login: str) -> str:
    """Return the user in the directory's path: the log-in node's if named, otherwise this one."""
    user, at, _ = login.rpartition("@")
    if at:
        return re.sub(r"[^\w.-]", "_", user)
    with contextlib.suppress(KeyError, OSError, ImportError):
        return re.sub(r"[^\w.-]", "_", getpass.getuser())
    return str(os.getuid()) if hasattr(os, "getuid") else "user"
