"""Commands of another machine, through OpenSSH as the user has it, or of this one."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import ReportError, SettingsError, ToolError
from gpu_profile.launchers.jobdir import AGENT, SAMPLES, Agent, answer, checked

LOST = 255
"""ssh's own exit code: the connection failed, not what it was to run."""
# Bound the time in which a connection that is gone is noticed; a busy one never is.
_KEEPALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
_NOT_SYNCED = ("--exclude=.git", "--exclude=.venv", "--exclude=__pycache__")
_NO_RSYNC = re.compile(r"not found|not recognized|unknown option|protocol version mismatch")
_FOR_GOOD = (
    ("IDENTIFICATION HAS CHANGED", "Ask its owner; was it replaced, `ssh-keygen -R {}` forgets it"),
    ("Host key verification failed", "Connect once by `ssh {}` and compare its fingerprint"),
    ("Permission denied", "Make `ssh {}` work first: the key, the user, the agent"),
    ("Too many authentication failures", "Name one key in ~/.ssh/config for {}"),
    ("Could not resolve hostname", "Check --host {}"),
    ("Bad configuration option", "Check ~/.ssh/config and SSH_ARGS"),
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where commands run: on `host`, or here where it is empty."""

    host: str = ""
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.host.startswith("-") or re.search(r"\s", self.host):
            raise SettingsError(f"{self.host!r} is not a host", "Use --host user@address")

    def run(self, *argv: str, stdin: str = "", stdout_file: Path | None = None) -> Command:
        if self.host:
            argv = (*self._ssh(), "--", self.host, shlex.join(argv))
        return Command(argv=argv, stdin=stdin, stdout_file=stdout_file)

    def shell(self, script: str, *, stdin: str = "", stdin_file: Path | None = None) -> Command:
        """A line for the POSIX shell there."""
        where = (*self._ssh(), "--", self.host) if self.host else ("sh", "-c")
        return Command(argv=(*where, script), stdin=stdin, stdin_file=stdin_file)

    def place_agent(self, agent: Agent, directory: str, archive: Path) -> Steps[None]:
        """Put job.py and its siblings into a new directory there, by way of an archive here."""
        pack = ("tar", "-cf", str(archive), "-C", str(agent.root), *AGENT, *SAMPLES)
        self.checked((yield Command(argv=pack)), f"packing {agent.root}")
        there = shlex.quote(directory)
        unpack = f"umask 077 && mkdir -p {there} && tar -xf - -C {there}"
        self.checked((yield self.shell(unpack, stdin_file=archive)), f"copying to {directory}")

    def send(self, source: Path, directory: str, archive: Path, *, rsync: bool) -> Steps[None]:
        """Copy what is in `source` into a directory there: rsync where both have it, else tar."""
        quoted = shlex.quote(directory)
        doing = f"copying {source} to {directory}"
        if rsync and self.host:
            self.checked((yield self.shell(f"mkdir -p {quoted}")), doing)
            there = f"{self.host}:{directory}/"
            result = yield self._rsync(*_NOT_SYNCED, "--", f"{source}/", there)
            if not _NO_RSYNC.search(result.stderr):
                self.checked(result, doing)
                return
        pack = ("tar", "-cf", str(archive), *_NOT_SYNCED, "-C", str(source), ".")
        self.checked((yield Command(argv=pack)), doing)
        unpack = f"mkdir -p {quoted} && tar -xf - -C {quoted}"
        self.checked((yield self.shell(unpack, stdin_file=archive)), doing)

    def fetch(
        self, directory: str, to: Path, again: str, *, agent: Agent, rsync: bool
    ) -> Steps[None]:
        """Copy the reports of a job's directory into `to`, each whole or not at all.

        A cut connection is tried once more, from where it was cut. `again` says how the user
        goes on. Raises ReportError with where the reports lie.
        """
        if not self.host:
            copied = yield agent.call("job.py", "copy", directory, str(to))
            checked(copied, f"copying the reports from {directory}")
            return
        there = shlex.quote(directory)
        listed = yield self.shell(f"test ! -e {there} || python3 {there}/job.py names {there}")
        if listed.returncode:
            raise self._not_fetched(listed, directory, again)
        names = answer(listed, f"listing {directory}") if listed.stdout else []
        if names and not (rsync and (yield from self._by_rsync(names, directory, to, again))):
            yield from self._by_tar(directory, to, again, agent)

    def _by_rsync(self, names: Sequence[str], directory: str, to: Path, again: str) -> Steps[bool]:
        """False where one side has no rsync that the other understands."""
        for attempt in (1, 2):
            result = yield self._rsync(
                *("--partial-dir=.partial", "--from0", "--files-from=-", "--"),
                *(f"{self.host}:{directory}/", f"{to}/"),
                stdin="\0".join(names),
            )
            if result.returncode == 0:
                return True
            if _NO_RSYNC.search(result.stderr):
                return False
            if attempt == 2:
                raise self._not_fetched(result, directory, again)
        return False

    def _by_tar(self, directory: str, to: Path, again: str, agent: Agent) -> Steps[None]:
        archive = to / ".fetched.tar"
        argv = ("python3", f"{directory}/job.py", "pack", directory)
        packed = yield self.run(*argv, stdout_file=archive)
        unpacked = yield agent.call("job.py", "unpack", str(archive), str(to))
        for result in (packed, unpacked):
            if result.returncode:
                raise self._not_fetched(result, directory, again)

    def checked(self, result: Result, doing: str) -> Result:
        """Raise ToolError where it failed, with what ssh's words mean."""
        if result.returncode:
            raise ToolError(f"{doing}: {self._said(result)}", self.hint(result))
        return result

    def hint(self, result: Result) -> str:
        """What to do about ssh's refusal; empty where trying again may do."""
        hints = (hint for words, hint in _FOR_GOOD if words in result.stderr)
        return next(hints, "").replace("{}", self.host)

    def away(self, result: Result) -> bool:
        """The connection failed in a way that passes: a network, a restart, a proxy."""
        return bool(self.host) and result.returncode == LOST and not self.hint(result)

    def _said(self, result: Result) -> str:
        if "IDENTIFICATION HAS CHANGED" in result.stderr:
            return f"the host key of {self.host} is not the one that is known"
        return result.said

    def _not_fetched(self, result: Result, directory: str, again: str) -> ReportError:
        where = f"the reports lie in {self.host}:{directory}"
        return ReportError(f"fetching failed ({self._said(result)}); {where}", again)

    def _ssh(self) -> tuple[str, ...]:
        return ("ssh", *_KEEPALIVE, *self.options)

    def _rsync(self, *argv: str, stdin: str = "") -> Command:
        """--protect-args: no shell of either side sees a name."""
        shell = f"--rsh={shlex.join(self._ssh())}"
        return Command(argv=("rsync", "--archive", "--protect-args", shell, *argv), stdin=stdin)
