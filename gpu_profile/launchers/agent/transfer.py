"""Files on their way to another machine and back: by rsync where both have it, otherwise by tar."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import ReportError
from gpu_profile.launchers.agent.job_directory import (
    SAMPLES,
    Agent,
    check_agent_result,
    list_scripts,
    parse_answer,
)
from gpu_profile.launchers.agent.place import RemoteHost

_NOT_SYNCED = ("--exclude=.git", "--exclude=.venv", "--exclude=__pycache__")
_STAGE = ".fetch"
"""What job.py calls it too."""
_NO_RSYNC = re.compile(r"not found|not recognized|unknown option|protocol version mismatch")


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """`rsync`: whether this side has it."""

    place: RemoteHost
    agent: Agent
    rsync: bool

    def send_agent(self, directory: str, archive: Path, *, shared: bool = False) -> Steps[None]:
        """Put job.py and its siblings into a directory there, by way of an archive here.

        The directory must be new: another machine's run may have the same name. `shared`: users
        meet where its parent lies, which must be this user's own.
        """
        pack = (
            *("tar", "-cf", "-"),
            *("-C", str(self.agent.root), *list_scripts(self.agent.root)),
            *("-C", str(SAMPLES), *list_scripts(SAMPLES)),
        )
        packed = yield Command(argv=pack, stdout_file=archive)
        self.place.checked(packed, f"packing {self.agent.root}")
        target, above = shlex.quote(directory), shlex.quote(str(PurePosixPath(directory).parent))
        ours = f" && {{ {own_directory(above)}; }}" if shared else ""
        unpack = f"mkdir {target} && tar -xof - -C {target}"
        line = f"umask 077 && mkdir -p {above}{ours} && {unpack}"
        sent = yield self.place.shell(line, stdin_file=archive)
        self.place.checked(sent, f"copying to {directory}")

    def send(self, source: Path, directory: str, archive: Path) -> Steps[None]:
        """Copy what is in `source` into a directory there."""
        quoted = shlex.quote(directory)
        doing = f"copying {source} to {directory}"
        if self.rsync and self.place.host:
            self.place.checked((yield self.place.shell(f"mkdir -p {quoted}")), doing)
            target = f"{self.place.host}:{directory}/"
            result = yield self._rsync("--archive", *_NOT_SYNCED, "--", f"{source}/", target)
            if not _NO_RSYNC.search(result.stderr):
                self.place.checked(result, doing)
                return
        pack = ("tar", "-cf", "-", *_NOT_SYNCED, "-C", str(source), ".")
        self.place.checked((yield Command(argv=pack, stdout_file=archive)), doing)
        unpack = f"mkdir -p {quoted} && tar -xof - -C {quoted}"
        self.place.checked((yield self.place.shell(unpack, stdin_file=archive)), doing)

    def fetch(self, directory: str, to: Path, again: str) -> Steps[None]:
        """Copy the reports of a job's directory into `to`, each whole or not at all.

        A cut connection is tried once more, from where it was cut. `again` says how the user
        goes on. Raises ReportError with where the reports lie.
        """
        if not self.place.host:
            copied = yield self.agent.call("job.py", "copy", directory, str(to))
            check_agent_result(copied, f"copying the reports from {directory}")
            return
        source = shlex.quote(directory)
        names = f"{own_directory(source)}; exec python3 {source}/job.py names {source}"
        listed = yield self.place.run("sh", "-c", f"test ! -e {source} || {{ {names}; }}")
        if listed.returncode:
            raise self._not_fetched(listed, directory, again)
        names_there = _names_in(
            parse_answer(listed, f"listing {directory}") if listed.stdout else []
        )
        if not names_there:
            return
        done = self.rsync and (yield from self._by_rsync(names_there, directory, to, again))
        if not done:
            yield from self._by_tar(directory, to, again)

    def _by_rsync(self, names: Sequence[str], directory: str, to: Path, again: str) -> Steps[bool]:
        """False where one side has no rsync that the other understands.

        rsync writes into a directory of its own, from which job.py takes what is expected.
        """
        yield self.agent.call("job.py", "stage", str(to))
        for attempt in (1, 2):
            result = yield self._rsync(
                *("--times", "--no-links", "--no-devices", "--no-specials", "--chmod=F600,D700"),
                *("--partial-dir=.partial", "--from0", "--files-from=-", "--"),
                *(f"{self.place.host}:{directory}/", f"{to}/{_STAGE}/"),
                stdin="\0".join(names),
            )
            if result.returncode == 0 or _NO_RSYNC.search(result.stderr):
                break
            if attempt == 2:
                raise self._not_fetched(result, directory, again)
        adopted = yield self.agent.call("job.py", "adopt", str(to))
        if result.returncode == 0 and adopted.returncode:
            raise self._not_fetched(adopted, directory, again)
        return result.returncode == 0

    def _by_tar(self, directory: str, to: Path, again: str) -> Steps[None]:
        archive = to / ".fetched.tar"
        argv = ("python3", f"{directory}/job.py", "pack", directory)
        packed = yield replace(self.place.run(*argv, stdout_file=archive), stdout_partial=True)
        unpacked = yield self.agent.call("job.py", "unpack", str(archive), str(to))
        for result in (packed, unpacked):
            if result.returncode:
                raise self._not_fetched(result, directory, again)

    def _not_fetched(self, result: Result, directory: str, again: str) -> ReportError:
        where = f"the reports lie in {self.place.host}:{directory}"
        return ReportError(f"fetching failed ({self.place.said(result)}); {where}", again)

    def _rsync(self, *argv: str, stdin: str = "") -> Command:
        """--protect-args: no shell of either side sees a name."""
        shell = f"--rsh={shlex.join(self.place.ssh())}"
        return Command(argv=("rsync", "--protect-args", shell, *argv), stdin=stdin)


def own_directory(quoted: str) -> str:
    """sh: fails with a line where a directory is another user's, or others may write to it.

    `test -O` is in dash, bash, ksh, zsh and busybox. What lies in it is run as this user.
    """
    writable = f"find {quoted}/. -prune \\( -perm -020 -o -perm -002 \\)"
    refuse_line = f"echo {quoted} is not a directory of this user alone >&2"
    return f'test -O {quoted} && test -z "$({writable})" || {{ {refuse_line}; exit 2; }}'


def _names_in(listed: object) -> list[str]:
    """What rsync is asked for: relative names that lead nowhere else. job.py judges them again."""
    every = listed if isinstance(listed, list) else []
    texts = [name for name in every if isinstance(name, str)]
    return [name for name in texts if ".." not in name and re.match(r"[^/.-]", name)]
