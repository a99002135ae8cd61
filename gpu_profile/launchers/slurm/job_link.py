"""The link to a job's directory, which has the job's number in Slurm as its name."""

import shlex
from dataclasses import dataclass

from gpu_profile.command import Command, Steps
from gpu_profile.errors import SettingsError
from gpu_profile.launchers.agent.transfer import own_directory
from gpu_profile.launchers.slurm.commands import parse_job_number
from gpu_profile.launchers.slurm.sbatch import COMMENT
from gpu_profile.remote_host import RemoteHost

_NOT_OURS = 2  # exit code of the shell text that looks for our marks


@dataclass(frozen=True, kw_only=True)
class JobLink:
    """The links in `directory`, such as `/shared/.gpu-profile-slurm-me/1234`.

    `older`: the directory of runs from versions in which all users shared one.
    """

    place: RemoteHost
    directory: str
    older: str

    def call(self, job_id: str, script: str) -> Command:
        """Return the command that runs a shell script, in which `$d` is the link of the job."""
        return self.place.run("sh", "-c", self.format_search(job_id) + script)

    def format_search(self, job_id: str) -> str:
        """Return shell text that sets `d` to the link to the job's directory.

        It fails if the directory belongs to another user. Directories of older versions are found
        too.
        """
        link, older = shlex.quote(self._format_path(job_id)), shlex.quote(f"{self.older}/{job_id}")
        check_owner = own_directory('"$d"')
        return f'd={link}; test -e "$d" || d={older}; test ! -e "$d" || {{ {check_owner}; }}; '

    def find_directory(self, job_id: str) -> Steps[str]:
        """Return the job's directory; the path of the link where there is none."""
        pwd_result = yield self.call(job_id, 'cd "$d" 2>/dev/null && pwd -P; true')
        answer = self.place.checked(pwd_result, f"looking for slurm://{job_id}").stdout
        return answer.rstrip("\n") or self._format_path(job_id)

    def require_own(self, job_id: str) -> Steps[None]:
        """Raise SettingsError unless the job has our comment in Slurm or a directory of ours."""
        job_line = f'"$(scontrol show job {parse_job_number(job_id)} --oneliner)"'
        words = f"slurm://{job_id} was not submitted by gpu-profile"
        refuse_line = f"echo {words} >&2; exit {_NOT_OURS}"
        comment = f'case {job_line} in *" Comment={COMMENT}"*) ;; *) {refuse_line} ;; esac'
        marked = yield self.call(job_id, f'test -e "$d/job.sbatch" || {comment}')
        if marked.returncode == _NOT_OURS:
            raise SettingsError(self.place.said(marked), "`squeue` and `scancel` show and end it")
        self.place.checked(marked, f"looking for slurm://{job_id}")

    def remove(self, job_id: str) -> Steps[None]:
        """Remove the job's directory and the link to it."""
        find_run = 'run=$(readlink -f "$d") && test -e "$run/job.sbatch"'
        remove = f'test ! -L "$d" || {{ {find_run} && rm -rf -- "$run" "$d"; }}'
        removed = yield self.call(job_id, remove)
        self.place.checked(removed, f"removing slurm://{job_id}")

    def _format_path(self, job_id: str) -> str:
        return f"{self.directory}/{parse_job_number(job_id)}"
