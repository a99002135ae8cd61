"""Commands on this machine or, through OpenSSH as the user configured it, on another one."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from gpu_profile.command import Command, Result
from gpu_profile.errors import SettingsError, ToolError

LOST = 255
"""ssh's exit code for its own failures, such as a lost connection.

https://man.openbsd.org/ssh#EXIT_STATUS
"""
# ssh notices a lost connection after 4 * 15 s without an answer, and waits without end for a host
# that takes the connection and says nothing: https://man.openbsd.org/ssh_config#ConnectTimeout
_KEEPALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
_CONNECT = ("-o", "ConnectTimeout=60")
_FOR_GOOD = (
    ("IDENTIFICATION HAS CHANGED", "Ask its owner; was it replaced, `ssh-keygen -R {}` forgets it"),
    ("Host key verification failed", "Connect once by `ssh {}` and compare its fingerprint"),
    ("Permission denied (", "Make `ssh {}` work first: the key, the user, the agent"),
    ("Too many authentication failures", "Name one key in ~/.ssh/config for {}"),
    ("Could not resolve hostname", "Check --host {}"),
    ("Bad configuration option", "Check ~/.ssh/config and SSH_ARGS"),
)


def below_home(path: str) -> str:
    """Return a path relative to the home directory: `~/runs` becomes `runs`.

    ssh starts in the home directory, and no shell there expands a quoted tilde.
    """
    return path.removeprefix("~/").rstrip("/") if path != "~" else ""


@dataclass(frozen=True, kw_only=True)
class RemoteHost:
    """The machine that runs commands: `host` over ssh, or this machine if `host` is empty.

    `if_missing` is the next step where this machine lacks a program.
    """

    host: str = ""
    options: tuple[str, ...] = ()
    if_missing: str = ""

    def __post_init__(self) -> None:
        # ssh would take such a host for an option: -oProxyCommand=… runs a program here.
        if self.host.startswith("-") or re.search(r"\s", self.host):
            raise SettingsError(f"{self.host!r} is not a host", "Use --host user@address")

    def run(self, *argv: str, stdin: str = "", stdout_file: Path | None = None) -> Command:
        hint = self.if_missing
        if self.host:
            argv, hint = (*self.ssh(), "--", self.host, shlex.join(argv)), ""
        return Command(argv=argv, stdin=stdin, stdout_file=stdout_file, if_missing=hint)

    def shell(self, script: str, *, stdin: str = "", stdin_file: Path | None = None) -> Command:
        """Return the command that runs a line of POSIX shell on that machine."""
        where = (*self.ssh(), "--", self.host) if self.host else ("sh", "-c")
        return Command(argv=(*where, script), stdin=stdin, stdin_file=stdin_file)

    def checked(self, result: Result, doing: str) -> Result:
        """Return the result. Raises ToolError, with what ssh's message means, if it failed."""
        if result.returncode:
            hint = f"See that `ssh {self.host}` works" if self.away(result) else self.hint(result)
            raise ToolError(f"{doing}: {self.said(result)}", hint)
        return result

    def hint(self, result: Result) -> str:
        """Return what to do about ssh's message; empty if a second attempt may succeed."""
        hints = (hint for words, hint in _FOR_GOOD if words in result.stderr)
        return next(hints, "").replace("{}", self.host)

    def reached(self, result: Result, doing: str) -> None:
        """Raise ToolError if ssh itself failed, and not the remote command."""
        if self.away(result) or self.hint(result):
            self.checked(result, doing)

    def away(self, result: Result) -> bool:
        """Return whether the connection failed for a passing reason, such as a restart."""
        return bool(self.host) and result.returncode == LOST and not self.hint(result)

    def said(self, result: Result) -> str:
        if "IDENTIFICATION HAS CHANGED" in result.stderr:
            return f"the host key of {self.host} is not the one that is known"
        return result.last_line

    def ssh(self) -> tuple[str, ...]:
        # Of an option that is given twice ssh takes the first: SSH_ARGS may have another time.
        return ("ssh", *_KEEPALIVE, *self.options, *_CONNECT)
