"""Launcher `ssh`: jobs of a remote GPU host, such as an EC2 instance. It needs OpenSSH only."""

import functools
import re
import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from gpu_profile.command import Command, Result, Steps
from gpu_profile.declared.ssh_settings import SshSettings
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.job_status import JobState, JobStatus
from gpu_profile.launchers.agent import job_directory, windows
from gpu_profile.launchers.agent.transfer import Transfer, own_directory
from gpu_profile.launchers.one_host import OneHost, name_nsys
from gpu_profile.nsys.recorder import Window, WindowRequest
from gpu_profile.remote_host import RemoteHost, below_home
from gpu_profile.settings.settings import Settings

_JOB_ID = re.compile(r"(?P<host>(?:[^\[\]:]*@)?(?:\[[^\]]+\]|[^:]+)):(?P<directory>.+)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class SshLauncher(OneHost):
    """Runs a job on a remote host. Its id is `user@address:directory`.

    The id is all that another shell needs to find the job. `directory` holds one folder for each
    run. The local directory `sync` is copied to `workdir`, where the job runs. Relative paths
    start at the remote home directory.
    """

    name: ClassVar[str] = "ssh"
    address: str
    report_dir: Path
    options: tuple[str, ...] = ()
    directory: str = ".gpu-profile"
    workdir: str = ""
    sync: Path | None = None
    rsync: bool = True

    @classmethod
    def from_settings(cls, settings: Settings) -> "SshLauncher":
        ssh = settings.of(SshSettings)
        return cls(
            address=ssh.host,
            report_dir=settings.report_dir.absolute(),
            options=tuple(shlex.split(ssh.args)),
            directory=below_home(ssh.dir),
            workdir=below_home(ssh.workdir),
            sync=_find_local_directory(ssh.sync),
            nsys=settings.nsys,
            carrier_image=settings.carrier_ref,
            rsync=shutil.which("rsync") is not None,
        )

    @property
    def runs(self) -> str:
        return self.directory

    @property
    def carried_below(self) -> str:
        return self.directory

    def host(self) -> RemoteHost | None:
        return self.place()

    def script(self, name: str, *argv: str) -> Command:
        """Return the command that sends a script to `python3 -`: no file is written there."""
        return self.place().run("python3", "-", *argv, stdin=self.agent.text(name))

    def check_result(self, result: Result) -> Result:
        return self.place().checked(result, f"asking {self.address}")

    def submit(self, job: Job, plan: NsysPlan) -> Steps[str]:
        place, directory = self.place(), f"{self.directory}/{job.name}"
        transfer = self._make_transfer(place)
        archive = self.report_dir / job.name / ".sent.tar"
        yield from transfer.send_agent(directory, archive)
        workdir = self.workdir or (f"{directory}/work" if self.sync else "")
        if self.sync:
            yield from transfer.send(self.sync, workdir, archive)
        yield self.agent.call("job.py", "discard", str(archive))
        spec = job_directory.render_spec(
            job, plan, ".", cwd=workdir, nsys=name_nsys(job, self.nsys)
        )
        started = yield place.run("python3", f"{directory}/job.py", "start", directory, stdin=spec)
        place.reached(started, f"starting {job.name} on {self.address}")
        job_directory.check_agent_result(started, f"starting {job.name} on {self.address}")
        return f"{self.address}:{directory}"

    def status(self, job_id: str) -> Steps[JobStatus]:
        """Return the job's state, UNKNOWN while the host cannot be reached.

        The job goes on meanwhile.
        """
        place, _ = self._at(job_id)
        result = yield self._call_job(job_id, "status")
        if place.away(result):
            return JobStatus(state=JobState.UNKNOWN, reason=f"{place.host}: {result.last_line}")
        place.reached(result, f"asking {place.host}")
        return job_directory.parse_status(result)

    def logs(self, job_id: str, *, follow: bool) -> Command:
        words = ("logs", "--follow") if follow else ("logs",)
        return self._call_job(job_id, *words)

    def stop(self, job_id: str) -> Steps[None]:
        place, _ = self._at(job_id)
        place.checked((yield self._call_job(job_id, "stop")), f"stopping {job_id}")

    def record(self, job_id: str, request: WindowRequest) -> Steps[Window]:
        _, directory = self._at(job_id)
        call = functools.partial(self._call_script, job_id, windows.SCRIPT)
        return windows.record_window(call, directory, request)

    def fetch(self, job_id: str, to: Path) -> Steps[None]:
        place, directory = self._at(job_id)
        again = f"`invoke fetch --job ssh://{job_id}` goes on"
        yield from self._make_transfer(place).fetch(directory, to, again)

    def export(self, job_id: str, report: Path, output: Path) -> Command | None:
        """Return the command that exports on the host, with the nsys that recorded the report.

        So this machine needs no nsys, and the version always fits.
        """
        return replace(self._call_job(job_id, "export", report.name), stdout_file=output)

    def cleanup(self, job_id: str) -> Steps[None]:
        """Remove this run's directory there. The user's working directory is left as it is."""
        place, directory = self._at(job_id)
        quoted = shlex.quote(directory)
        remove = f"{{ {own_directory(quoted)}; }} && python3 {quoted}/job.py remove {quoted}"
        remove = f"test ! -e {quoted} || {{ {remove}; }}"
        place.checked((yield place.shell(remove)), f"removing {job_id}")

    def place(self) -> RemoteHost:
        if not self.address:
            raise SettingsError("no host to run on", "Use --host user@address, or set SSH_HOST")
        return RemoteHost(host=self.address, options=self.options)

    def _make_transfer(self, place: RemoteHost) -> Transfer:
        return Transfer(place=place, agent=self.agent, rsync=self.rsync)

    def _at(self, job_id: str) -> tuple[RemoteHost, str]:
        """Return the host and directory of a job's id. An IPv6 address stands in brackets."""
        match = _JOB_ID.fullmatch(job_id)
        if match is None:
            raise SettingsError(f"ssh://{job_id} names no job", "Use ssh://user@address:DIRECTORY")
        # Programs would take a name that begins with a dash for an option.
        directory = re.sub("^-", "./-", match["directory"])
        return RemoteHost(host=match["host"], options=self.options), directory

    def _call_job(self, job_id: str, verb: str, *more: str) -> Command:
        """Return the call of the job's own copy of job.py."""
        _, directory = self._at(job_id)
        return self._call_script(job_id, "job.py", verb, directory, *more)

    def _call_script(self, job_id: str, name: str, *words: str) -> Command:
        """Return the call of the job's own copy of a script of the agent.

        It is refused if other users can write to the job's directory.
        """
        place, directory = self._at(job_id)
        call = shlex.join(("python3", f"{directory}/{name}", *words))
        script = f"{own_directory(shlex.quote(directory))}; exec {call}"
        return place.run("sh", "-c", script)


def _find_local_directory(path: str) -> Path | None:
    if path and not Path(path).is_dir():
        raise SettingsError(f"--sync {path}: no such directory", "Name a directory of this machine")
    return Path(path).absolute() if path else None
