"""The settings of hosts that jobs run on by SSH or directly: SSH_HOST, SSH_WORKDIR, …"""

from dataclasses import dataclass
from typing import ClassVar

from gpu_profile.declared.key_fields import LauncherSettings, make_field, make_words_field


@dataclass(frozen=True, kw_only=True)
class SshSettings(LauncherSettings):
    """SSH_…: `workdir` also holds for jobs of this machine, `args` for Slurm's log-in node."""

    prefix: ClassVar[str] = "SSH"
    host: str = make_field(
        "", "user@address of a remote GPU host, or its name in ~/.ssh/config", "login"
    )
    workdir: str = make_field(
        "", "Directory there that jobs run in; empty is home, or SSH_SYNC's copy", "directory"
    )
    sync: str = make_field(
        "", "Directory here to copy to SSH_WORKDIR (or the run) before it runs", "directory"
    )
    dir: str = make_field(".gpu-profile", "Directory there for runs and their reports", "path")
    args: str = make_words_field("More options for ssh, as in -p 2222 -J user@bastion")
