"""Copy files to another machine and back, by rsync if both sides have it, otherwise by tar."""

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
from gpu_profile.remote_host import RemoteHost

_NOT_SYNCED = ("--exclude=.git", "--exclude=.venv", "--exclude=__pycache__")
"""A virtual environment names its own directory in its programs: a copy elsewhere does not work."""
_STAGE = ".fetch"
"""The folder that rsync writes into. The same name as STAGE of job_files.py."""
# What sh, Windows' cmd.exe and an rsync of another age say.
_NO_RSYNC = re.compile(r"not found|not recognized|unknown option|protocol version mismatch")


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Copies between this machine and `place`. `rsync`: whether this machine has rsync."""

    place: RemoteHost
    agent: Agent
    rsync: bool

    def send_agent(self, directory: str, archive: Path, *, shared: bool = False) -> Steps[None]:
        """Copy job.py, its siblings and the samples into a new directory there.

        They travel in the tar file `archive`. mkdir fails if the directory exists: another machine
        may use the same run name. `shared`: other users can reach the parent directory, so it must
        belong to this user alone.
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
        # -o: as root, tar would give the files the owners that they have here.
        unpack = f"mkdir {target} && tar -xof - -C {target}"
        line = f"umask 077 && mkdir -p {above}{ours} && {unpack}"
        sent = yield self.place.shell(line, stdin_file=archive)
        self.place.checked(sent, f"copying to {directory}")

    def send(self, source: Path, directory: str, archive: Path) -> Steps[None]:
        """Copy the contents of the directory `source` into `directory` there."""
        quoted = shlex.quote(directory)
        doing = f"copying {source} to {directory}"
        if self.rsync and self.place.host:
            self.place.checked((yield self.place.shell(f"mkdir -p {quoted}")), doing)
            target = f"{self.place.host}:{directory}/"
            excludes = _list_excludes(source, "/")
            result = yield self._rsync("--archive", *excludes, "--", f"{source}/", target)
            if not _NO_RSYNC.search(result.stderr):
                self.place.checked(result, doing)
                return
        pack = ("tar", "-cf", "-", *_list_excludes(source, "./"), "-C", str(source), ".")
        self.place.checked((yield Command(argv=pack, stdout_file=archive)), doing)
        unpack = f"mkdir -p {quoted} && tar -xof - -C {quoted}"
        self.place.checked((yield self.place.shell(unpack, stdin_file=archive)), doing)

    def fetch(self, directory: str, to: Path, again: str) -> Steps[None]:
        """Copy the reports of a job's directory into `to`, each complete or not at all.

        After a cut connection rsync continues once, where it stopped. `again` is the hint for the
        user. Raises ReportError, which says where the reports are.
        """
        if not self.place.host:
            copied = yield self.agent.call("job.py", "copy", directory, str(to))
            check_agent_result(copied, f"copying the reports from {directory}")
            return
        source = shlex.quote(directory)
        # A directory that was fetched and removed before is no error: it has no names.
        names = f"{own_directory(source)}; exec python3 {source}/job.py names {source}"
        listed = yield self.place.run("sh", "-c", f"test ! -e {source} || {{ {names}; }}")
        if listed.returncode:
            raise self._not_fetched(listed, directory, again)
        names_there = _parse_names(
            parse_answer(listed, f"listing {directory}") if listed.stdout else []
        )
        if not names_there:
            return
        done = self.rsync and (yield from self._by_rsync(names_there, directory, to, again))
        if not done:
            yield from self._by_tar(directory, to, again)

    def _by_rsync(self, names: Sequence[str], directory: str, to: Path, again: str) -> Steps[bool]:
        """Copy by rsync. Returns False if the two sides have no rsync that work together.

        rsync writes into its own folder; `job.py adopt` moves the files with expected names out of
        it.
        """
        yield self.agent.call("job.py", "stage", str(to))
        for attempt in (1, 2):
            result = yield self._rsync(
                # Regular files for this user alone: what the other machine has is not trusted.
                *("--times", "--no-links", "--no-devices", "--no-specials", "--chmod=F600,D700"),
                # A partial file is apart from whole ones, so that `adopt` takes none.
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
        """Return an rsync command. --protect-args keeps file names away from the remote shell."""
        shell = f"--rsh={shlex.join(self.place.ssh())}"
        return Command(argv=("rsync", "--protect-args", shell, *argv), stdin=stdin)


def own_directory(quoted: str) -> str:
    """Return shell text that fails if other users own a directory or can write to it.

    Programs in that directory are run as this user. `test -O` works in dash, bash, ksh, zsh and
    busybox.
    """
    writable = f"find {quoted}/. -prune \\( -perm -020 -o -perm -002 \\)"
    refuse_line = f"echo {quoted} is not a directory of this user alone >&2"
    return f'test -O {quoted} && test -z "$({writable})" || {{ {refuse_line}; exit 2; }}'


def _list_excludes(source: Path, top: str) -> tuple[str, ...]:
    """Return the options of rsync and tar for what is not copied. `top` begins a path at `source`.

    A directory `venv` is left out if it is a virtual environment.
    """
    is_environment = (source / "venv" / "pyvenv.cfg").is_file()
    return (*_NOT_SYNCED, f"--exclude={top}venv") if is_environment else _NOT_SYNCED


def _parse_names(listed: object) -> list[str]:
    """Return relative names without `..`, to ask rsync for.

    The list comes from the other machine; job.py checks the files' names again.
    """
    entries = listed if isinstance(listed, list) else []
    texts = [name for name in entries if isinstance(name, str)]
    return [name for name in texts if ".." not in name and re.match(r"[^/.-]", name)]
