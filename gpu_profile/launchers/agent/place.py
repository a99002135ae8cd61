"""Commands of another machine, through OpenSSH as the user has it, or of this one."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from gpu_profile.command import Command, Result
from gpu_profile.errors import SettingsError, ToolError

LOST = 255
"""ssh's own exit code: the connection failed, not what it was to run."""
# Bound the time in which a connection that is gone is noticed; a busy one never is.
_KEEPALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
_FOR_GOOD = (
    ("IDENTIFICATION HAS CHANGED", "Ask its owner; was it replaced, `ssh-keygen -R {}` forgets it"),
    ("Host key verification failed", "Connect once by `ssh {}` and compare its fingerprint"),
    ("Permission denied (", "Make `ssh {}` work first: the key, the user, the agent"),
    ("Too many authentication failures", "Name one key in ~/.ssh/config for {}"),
    ("Could not resolve hostname", "Check --host {}"),
    ("Bad configuration option", "Check ~/.ssh/config and SSH_ARGS"),
)


def below_home(path: str) -> str:
    """ssh starts in the home directory; nothing there expands a tilde for us."""
    return path.removeprefix("~/").rstrip("/") if path != "~" else ""


@dataclass(frozen=True, kw_only=True)
class RemoteHost:
    """Where commands run: on `host`, or here where it is empty."""

    host: str = ""
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.host.startswith("-") or re.search(r"\s", self.host):
            raise SettingsError(f"{self.host!r} is not a host", "Use --host user@address")

    def run(self, *argv: str, stdin: str = "", stdout_file: Path | None = None) -> Command:
        if self.host:
            argv = (*self.ssh(), "--", self.host, shlex.join(argv))
        return Command(argv=argv, stdin=stdin, stdout_file=stdout_file)

    def shell(self, script: str, *, stdin: str = "", stdin_file: Path | None = None) -> Command:
        """A line for the POSIX shell there."""
        where = (*self.ssh(), "--", self.host) if self.host else ("sh", "-c")
        return Command(argv=(*where, script), stdin=stdin, stdin_file=stdin_file)

    def checked(self, result: Result, doing: str) -> Result:
        """Raise ToolError where it failed, with what ssh's words mean."""
        if result.returncode:
            hint = f"See that `ssh {self.host}` works" if self.away(result) else self.hint(result)
            raise ToolError(f"{doing}: {self.said(result)}", hint)
        return result

    def hint(self, result: Result) -> str:
        """What to do about ssh's refusal; empty where trying again may do."""
        hints = (hint for words, hint in _FOR_GOOD if words in result.stderr)
        return next(hints, "").replace("{}", self.host)

    def reached(self, result: Result, doing: str) -> None:
        """Raise ToolError where ssh itself failed, and not what it was to run."""
        if self.away(result) or self.hint(result):
            self.checked(result, doing)

    def away(self, result: Result) -> bool:
        """The connection failed in a way that passes: a network, a restart, a proxy."""
        return bool(self.host) and result.returncode == LOST and not self.hint(result)

    def said(self, result: Result) -> str:
        if "IDENTIFICATION HAS CHANGED" in result.stderr:
            return f"the host key of {self.host} is not the one that is known"
        return result.said

    def ssh(self) -> tuple[str, ...]:
        return ("ssh", *_KEEPALIVE, *self.options)
